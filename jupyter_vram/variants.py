"""One program with several values of its variables: each is dry run once."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_vram.analysis.cell_report import choose_device
from jupyter_vram.analysis.device_bytes import Need, usable_bytes
from jupyter_vram.analysis.variation import Search
from jupyter_vram.dry_run.outcome import Failure, Outcome
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.program import Program
from jupyter_vram.dry_run.rehearsal import Setting
from jupyter_vram.dry_run.running import dry_run
from jupyter_vram.errors import DryRunError
from jupyter_vram.model.estimate import Assumption, Axis, Grid, Largest
from jupyter_vram.model.gpus import Gpu
from jupyter_vram.model.overheads import Overhead
from jupyter_vram.model.trace import Recording
from jupyter_vram.report import Report

SEARCH_S = 10.0
"""What the search for the largest sizes may take, about."""
MOST_RUNS = 60
_BATCH = re.compile(r"(?:\w+_)?(?:batch(?:_?size)?|bsz?)\Z", re.IGNORECASE)
_LENGTH = re.compile(
    r"(?:\w+_)?(?:seq(?:uence)?(?:_?len(?:gth)?)?|max_len(?:gth)?|block_size|context_length)\Z",
    re.IGNORECASE,
)
ON_GPU = Assumption(
    "The code keeps all its tensors on the CPU: they were counted as if they were on the GPU.",
    "Data that would stay on the CPU may be counted too.",
)

Progress = Callable[[int, int], None]
"""Called with the number of dry runs that have ended, and that there will be."""


def silent(done: int, planned: int) -> None:
    """Tells nobody."""
    del done, planned


@dataclass(frozen=True, slots=True)
class Run:
    """What a dry run found."""

    outcome: Outcome
    need: Need
    took_s: float
    on_gpu: bool

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was assumed, and what it may change."""
        return (ON_GPU, *self.outcome.assumptions) if self.on_gpu else self.outcome.assumptions

    @property
    def emulated_s(self) -> float:
        """How long it took."""
        return self.outcome.emulated_s

    def recording(self, gpu: Gpu) -> Recording:
        """The traces, that of the report's device first, with the allocator's figures on a GPU."""
        recording = self.outcome.recording
        assert recording is not None
        own = self.need.trace
        others = tuple(trace for trace in recording.traces if trace.device != own.device)
        if own.device != "cpu":
            own = dataclasses.replace(own, allocator=self.need.simulation(gpu).figures)
        return dataclasses.replace(recording, traces=(own, *others))


class Variants:
    """Dry runs of one program."""

    def __init__(
        self,
        program: Program,
        gpu: Gpu | None,
        *,
        device: str | None = None,
        limits: Limits | None = None,
        isolated: bool = False,
        name: str | None = None,
        context: Overhead | None = None,
    ) -> None:
        """
        Args:
            gpu: what ``torch.cuda`` tells of; ``None``: a machine without a GPU.
            device: whose report is wanted, as of a recording.
            context: of this machine's GPU, in place of the table's.
        """
        self._program = program
        self._gpu = gpu
        self._device = device
        self._limits = limits or Limits()
        self._isolated = isolated
        self._name = name
        self._context = context
        self._on_gpu = False
        self._runs: dict[tuple[tuple[str, int], ...], Run] = {}

    def run(self, values: Mapping[str, int]) -> Run:
        """The program with these values.

        Raises:
            DryRunError: it failed, or its process did.
        """
        key = tuple(sorted(values.items()))
        known = self._runs.get(key)
        if known is None:
            known = self._runs[key] = self._run(values)
        return known

    def _run(self, values: Mapping[str, int]) -> Run:
        started = time.perf_counter()
        program = dataclasses.replace(self._program, values=values)  # type: ignore[type-var]
        outcome = dry_run(program, self._setting(), self._limits, isolated=self._isolated)
        if self._gpu is not None and not self._on_gpu and self._device is None:
            recording = outcome.recording
            # Code that has found no GPU: the question is what it would need on one.
            if recording is not None and {trace.device for trace in recording.traces} == {"cpu"}:
                self._on_gpu = True
                outcome = dry_run(program, self._setting(), self._limits, isolated=self._isolated)
        if outcome.failure is not None:
            raise self._error(outcome, outcome.failure)
        assert outcome.recording is not None
        trace = choose_device(outcome.recording, self._device)
        return Run(outcome, Need(trace, self._context), time.perf_counter() - started, self._on_gpu)

    def _setting(self) -> Setting:
        return Setting(self._gpu, on_gpu=self._on_gpu, name=self._name)

    def _error(self, outcome: Outcome, failure: Failure) -> DryRunError:
        where = f" in line {failure.line}" if failure.line is not None else ""
        error = DryRunError(f"The dry run failed{where}: {failure.kind}: {failure.message}")
        error.failure = failure
        recording = outcome.recording
        if recording is not None and any(len(trace.change_bytes) for trace in recording.traces):
            error.report = Report.from_recording(recording)
        return error

    # --- several values --------------------------------------------------------------------------

    def grid(self, axes: Sequence[Axis], tell: Progress) -> Grid:
        """What each pair of values needs."""
        rows, columns = axes[0], axes[1] if len(axes) > 1 else None
        cells = [
            {rows.variable: row} | ({} if columns is None else {columns.variable: column})
            for row in rows.values
            for column in (columns.values if columns is not None else (0,))
        ]
        device: list[int | None] = []
        tensors: list[int | None] = []
        failures: list[str] = []
        for done, values in enumerate(cells):
            tell(done, len(cells))
            try:
                need = self.run(values).need
            except DryRunError as error:
                device.append(None)
                tensors.append(None)
                named = ", ".join(f"{name}={value}" for name, value in values.items())
                failures.append(f"{named}: {error}")
                continue
            tensors.append(need.tensor_bytes)
            device.append(self._device_bytes(need))
        return Grid(tuple(axes), tuple(device), tuple(tensors), tuple(failures))

    def _device_bytes(self, need: Need) -> int:
        return need.on(self._gpu).bytes if self._gpu is not None else need.tensor_bytes

    def largest(
        self, gpu: Gpu | None, others: Sequence[Gpu], tell: Progress
    ) -> dict[str, tuple[Largest, ...]]:
        """By GPU: the largest batch and sequence length that fit it, where the program has a
        variable for them.

        For `gpu` it is searched for, as long as there is time; for the others it is told from the
        dry runs that were made.
        """
        gpus = [*([] if gpu is None else [gpu]), *others]
        found: dict[str, list[Largest]] = {one.name: [] for one in gpus}
        sizes = self._sizes()
        for done, (variable, start) in enumerate(sizes.items()):
            tell(done, len(sizes))
            values = _Sizes(self, variable, start, SEARCH_S / len(sizes))
            if not values.matters():
                continue
            rows = [] if gpu is None else [(gpu, values.largest(gpu))]
            rows += [(other, values.between(other)) for other in others]
            for one, row in rows:
                if row is not None:
                    found[one.name].append(row)
        return {name: tuple(rows) for name, rows in found.items()}

    def _sizes(self) -> dict[str, int]:
        """Variables that look like a batch's size or a sequence's length, with their values."""
        integers = self._program.integers()
        sizes: dict[str, int] = {}
        for pattern in (_BATCH, _LENGTH):
            names = [name for name in integers if pattern.match(name)]
            if names:
                sizes[names[0]] = integers[names[0]]
        return sizes


class _Sizes:
    """Values of one variable, and what the program needs with each."""

    def __init__(self, variants: Variants, variable: str, start: int, time_s: float) -> None:
        self._variants = variants
        self._variable = variable
        self._start = start
        first = variants.run({})
        self._needs: dict[int, Need | None] = {start: first.need}
        self._most = max(6, min(MOST_RUNS, int(time_s / max(first.took_s, 0.01))))

    def need(self, value: int) -> Need | None:
        """What a value needs; ``None`` if its dry run failed."""
        if value not in self._needs:
            try:
                self._needs[value] = self._variants.run({self._variable: value}).need
            except DryRunError:
                self._needs[value] = None
        return self._needs[value]

    def matters(self) -> bool:
        """Whether more of it needs more: a variable of that name may have nothing to do with what
        runs here."""
        first, double = self.need(self._start), self.need(2 * self._start)
        self.need(1)
        return double is None or first is None or double.tensor_bytes > first.tensor_bytes

    def largest(self, gpu: Gpu) -> Largest | None:
        """The largest value that fits a GPU."""
        search = self._search(gpu)
        return search.largest(self._start, usable_bytes(gpu))

    def between(self, gpu: Gpu) -> Largest | None:
        """The same, without another dry run."""
        return self._search(gpu).between(usable_bytes(gpu))

    def _search(self, gpu: Gpu) -> Search:
        def need_bytes(value: int) -> int | None:
            need = self.need(value)
            return None if need is None else need.on(gpu).bytes

        search = Search(self._variable, need_bytes, most=self._most - len(self._needs))
        for value in list(self._needs):
            search.know(value, need_bytes(value))
        return search
