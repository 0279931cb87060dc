"""What a recording knows of GPUs beside torch's profiler: the allocator's history and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_vram.errors import VramError
from jupyter_vram.model.kernel_report import AllocatorStats
from jupyter_vram.model.trace import AllocatorFigures, Trace
from jupyter_vram.recorders.cuda_history import CudaHistory
from jupyter_vram.recorders.history_join import join
from jupyter_vram.recorders.profiler_walk import Change
from jupyter_vram.recorders.trace_builder import Scene, build
from jupyter_vram.sources import torch_allocator

NO_HISTORY = (
    "The allocator's history could not be had ({}), so what was there before on the GPU is only"
    " what Python's objects hold, and requested sizes are not known."
)


class GpuSide:
    """Of one recording. Never creates a CUDA context: where there is none at the start, nothing
    was allocated before, and the profiler alone tells what comes."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._history: CudaHistory | None = None
        self._before: dict[int, AllocatorStats] = {}

    def start(self) -> None:
        """Begin; what can't be had is told in `notes`."""
        reading = torch_allocator.read()
        self._before = {stats.ordinal: stats for stats in reading.devices}
        if reading.torch_state != "cuda_initialized":
            return
        try:
            # Kept before it begins: an interrupt then still finds it.
            self._history = CudaHistory()
            self._history.start()
        except VramError as error:
            self._history = None
            self.notes.append(NO_HISTORY.format(str(error).rstrip(".")))

    def close(self) -> None:
        """End without a word."""
        history, self._history = self._history, None
        if history is not None:
            history.close()

    def stop(self, labels: Mapping[str, str], line_offsets: Mapping[str, int]) -> tuple[Trace, ...]:
        """End; the history's traces by device, none if there is no history."""
        history, self._history = self._history, None
        if history is None:
            return ()
        try:
            return history.stop(labels=labels, line_offsets=line_offsets)
        except VramError as error:
            self.notes.append(NO_HISTORY.format(str(error).rstrip(".")))
            return ()

    def traces(
        self,
        histories: Sequence[Trace],
        changes: Mapping[str, Sequence[Change]],
        scene: Scene,
    ) -> tuple[Trace, ...]:
        """A trace per GPU, of its history where there is one. `changes`: the profiler's."""
        after = {f"cuda:{stats.ordinal}": stats for stats in torch_allocator.read().devices}
        by_device = {history.device: history for history in histories}
        found = []
        for device in sorted(
            {*by_device, *changes, *(where for where, _ in scene.before.held)} - {"cpu"}
        ):
            stats, own = after.get(device), changes.get(device, ())
            if device in by_device:
                found.append(join(by_device[device], own, scene, self._retries(stats)))
            else:
                figures = self._figures(stats)
                found.append(
                    build(
                        device,
                        own,
                        scene,
                        recorder="cuda",
                        bytes_kind="block",
                        allocator=figures,
                    )
                )
        return tuple(found)

    def _retries(self, stats: AllocatorStats | None) -> int | None:
        if stats is None:
            return None
        before = self._before.get(stats.ordinal)
        return _since(before.alloc_retries if before else 0, stats.alloc_retries)

    def _figures(self, stats: AllocatorStats | None) -> AllocatorFigures | None:
        if stats is None:
            return None
        before = self._before.get(stats.ordinal)
        return AllocatorFigures(
            reserved_bytes=stats.reserved_bytes,
            inactive_split_bytes=stats.inactive_split_bytes,
            alloc_retries=self._retries(stats),
            ooms=_since(before.ooms if before else 0, stats.ooms),
        )


def _since(before: int | None, after: int | None) -> int | None:
    """What a counter of the process grew by; ``None`` if unknown, or reset meanwhile."""
    if before is None or after is None or after < before:
        return None
    return after - before
