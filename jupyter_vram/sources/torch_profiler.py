"""torch's profiler, for memory: the only caller of its private switches.

It records operations and allocations without Python stacks, shapes or a dispatch mode: compiled
functions stay compiled, and a cell of millions of Python calls costs nothing more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from jupyter_vram.sources import torch_log

NATIVE = "aten::"
"""Operations that call no Python: what is within them is theirs."""
MARKER = "jupyter_vram"
"""The name of an operation with which the recording thread makes itself known."""


_ours: list[int] = []
"""The session that has begun and not ended."""


class OpEvent(NamedTuple):
    """An operation begins. `depth` is 0 for one that no other contains."""

    depth: int
    name: str
    start_ns: int
    end_ns: int
    sequence: int
    """Of autograd: of the node that a forward operation may create, or that a backward one runs;
    -1 if it does neither."""
    is_backward: bool
    is_user: bool
    """A `record_function` range, not an operation."""
    thread: int


class MemoryEvent(NamedTuple):
    """Bytes come (`change_bytes` > 0) or go."""

    depth: int
    time_ns: int
    change_bytes: int
    address: int
    device: str
    thread: int


def quiet() -> None:
    """Keep the profiler's library from writing two lines to stderr at each recording.

    It reads its level once, when torch is imported: later, this does nothing.
    """
    if "torch" not in sys.modules:
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")


def torch_if_installed() -> Any | None:
    """torch, imported if need be; ``None`` where it is not installed."""
    if "torch" not in sys.modules:
        try:
            import torch  # noqa: F401
        except ImportError:
            return None
    return sys.modules["torch"]


class ProfilerSession:
    """One recording. torch has one session per process: see `is_active`."""

    def __init__(self) -> None:
        import torch
        from torch._C import _profiler

        self._torch: Any = torch
        self._types: Any = _profiler
        self._result: Any = None

    @staticmethod
    def is_active() -> bool:
        """Whether a session (the user's, or ours) is on in this thread."""
        import torch

        return bool(torch.autograd._profiler_enabled())  # type: ignore[attr-defined]  # noqa: SLF001

    def start(self) -> None:
        """Begin to record."""
        autograd = self._torch.autograd
        config = autograd.ProfilerConfig(
            autograd.ProfilerState.KINETO,
            False,  # shapes
            True,  # memory
            False,  # stacks
            False,  # flops
            False,  # modules
            self._types._ExperimentalConfig(),  # noqa: SLF001
        )
        activities = {autograd.ProfilerActivity.CPU}
        _ours.append(id(self))
        torch_log.hush()
        autograd._prepare_profiler(config, activities)  # noqa: SLF001
        autograd._enable_profiler(config, activities)  # noqa: SLF001
        with autograd.profiler.record_function(MARKER):
            pass

    def stop(self) -> bool:
        """End; ``False`` if another session took over or ended ours, and nothing is known."""
        torch_log.restore()
        if not self.is_active() or self.is_users():
            return False
        try:
            self._result = self._torch.autograd._disable_profiler()  # noqa: SLF001
        except RuntimeError:
            return False
        finally:
            _ours.clear()
        return True

    @staticmethod
    def is_users() -> bool:
        """Whether torch's public profilers run: they raise a flag, which ours does not."""
        import torch

        return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False))

    @classmethod
    def end_leftover(cls) -> None:
        """End a session of ours that an interrupt kept from being ended."""
        torch_log.restore()
        if _ours and cls.is_active() and not cls.is_users():
            import torch

            torch.autograd._disable_profiler()  # type: ignore[attr-defined]  # noqa: SLF001
        _ours.clear()

    def events(self) -> Iterator[OpEvent | MemoryEvent]:
        """Parents before children, by time within each thread.

        Of operations within one that is written in C++ (``aten::…``), only those are told that
        have a sequence number, and of these only that and where they are: reading all fields of
        tens of thousands of events takes longer than the cell that made them.
        """
        types = self._types
        op, memory = types._EventType.TorchOp, types._EventType.Allocation  # noqa: SLF001
        backward, user = types.RecordScope.BACKWARD_FUNCTION, types.RecordScope.USER_SCOPE
        devices: dict[int, str] = {}
        roots = self._result.experimental_event_tree()
        pending: list[tuple[int, Any, OpEvent | None]] = [
            (0, root, None) for root in reversed(roots)
        ]
        while pending:
            depth, event, native = pending.pop()
            tag = event.tag
            if tag == memory:
                fields = event.extra_fields
                device = fields.device
                if device.type == "cpu":
                    name = "cpu"
                else:
                    index = device.index or 0
                    name = devices.setdefault(index, f"{device.type}:{index}")
                yield MemoryEvent(
                    depth,
                    event.start_time_ns,
                    fields.alloc_size,
                    fields.ptr or 0,
                    name,
                    native.thread if native else event.start_tid,
                )
                continue
            if tag == op:
                fields = event.extra_fields
                sequence = fields.sequence_number
                if native is not None:
                    if sequence >= 0:
                        yield native._replace(depth=depth, sequence=sequence)
                else:
                    scope = fields.scope
                    told = OpEvent(
                        depth,
                        event.name,
                        event.start_time_ns,
                        event.end_time_ns,
                        sequence,
                        scope == backward,
                        scope == user,
                        event.start_tid,
                    )
                    yield told
                    if told.name.startswith(NATIVE):
                        native = told
                depth += 1
            children = event.children
            if children:
                pending.extend((depth, child, native) for child in reversed(children))
