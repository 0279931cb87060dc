"""`Report`: what a recording has found, for the user to read, compare, save and load."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_vram.errors import RecordingError, ReportError
from jupyter_vram.model.estimate import Estimate
from jupyter_vram.model.report_data import DIMENSIONS, By, Kept, ReportData, Row
from jupyter_vram.model.report_json import from_json, to_json

if TYPE_CHECKING:
    import plotly.graph_objects  # type: ignore[import-untyped]

    from jupyter_vram.model.trace import Recording, Trace

NO_EVENTS = (
    "This report holds its figures, and no longer the events behind them (it was loaded from JSON):"
    " save as {suffix} from the report of the recording itself."
)
SUFFIXES = {
    ".json": "the report itself, which Report.load reads",
    ".perfetto.json": "its events for ui.perfetto.dev",
    ".pickle": "its events for pytorch.org/memory_viz",
    ".html": "a page",
    ".txt": "text",
}


class Report:
    """Figures of one recording on one device.

    Which bytes they are: blocks of the caching allocator on a GPU, tensors on the CPU
    (``to_dict()["bytes_kind"]``). Two reports are equal if all their figures are.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: ReportData, trace: Trace | None = None) -> None:
        self._data = data
        self._trace = trace

    @classmethod
    def from_recording(cls, recording: Recording, device: str | None = None) -> Report:
        """The report on `device` (``cuda:0``, ``0``, ``cpu``), or on the GPU that held most, or
        the CPU where none was used.

        Raises:
            RecordingError: nothing was recorded of `device`.
        """
        from jupyter_vram.analysis.cell_report import choose_device, report_data

        trace = choose_device(recording, device)
        return cls(report_data(recording, trace.device), trace)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Report:
        """A report that `save` wrote as JSON, or the report of a memory snapshot.

        A snapshot is what ``torch.cuda.memory._dump_snapshot`` wrote (any torch since 2.0), or a
        page that the memory_viz viewer saved. Its pickle is read without running any code of it.
        Of a snapshot with several devices, `device` chooses one.

        Raises:
            ReportError: it is a damaged report, or one of another version.
            SnapshotError: it is neither, a damaged snapshot, or one that wants code to be run.
            OSError: it can't be read.
        """
        path = Path(path)
        with path.open("rb") as file:
            head = file.read(64).lstrip()
        if head.startswith(b"{"):
            try:
                fields = json.loads(path.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise ReportError(f"{path.name} is not JSON: {error}.") from error
            report = cls(from_json(fields))
            if device not in (None, report.device):
                raise ReportError(f"{path.name} is the report of {report.device}, not of {device}.")
            return report
        from jupyter_vram.model.trace import Recording
        from jupyter_vram.recorders.snapshot_trace import traces_from_snapshot
        from jupyter_vram.sources.snapshot_pickle import load_snapshot

        traces = traces_from_snapshot(load_snapshot(path))
        return cls.from_recording(Recording(traces=traces, name=path.stem), device)

    # --- figures ---------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """As ``--name`` gave it."""
        return self._data.name

    @property
    def device(self) -> str:
        """``cuda:0``, ``cpu``."""
        return self._data.device

    @property
    def start_bytes(self) -> int:
        """Alive when the recording began."""
        return self._data.start_bytes

    @property
    def peak_bytes(self) -> int:
        """The most that was alive at once; what was there before counts."""
        return self._data.peak_bytes

    @property
    def end_bytes(self) -> int:
        """Alive when it ended."""
        return self._data.end_bytes

    @property
    def estimate(self) -> Estimate | None:
        """Of a dry run: from the tensors to the device, on what it fits, what was assumed."""
        return self._data.estimate

    @property
    def peak_device_bytes(self) -> int | None:
        """Of a dry run: what the device must have at the peak; ``None`` for a recording."""
        return None if self._data.estimate is None else self._data.estimate.peak_device_bytes

    @property
    def low(self) -> int | None:
        """The lower bound of `peak_device_bytes`."""
        return None if self._data.estimate is None else self._data.estimate.low_bytes

    @property
    def high(self) -> int | None:
        """The upper bound of `peak_device_bytes`."""
        return None if self._data.estimate is None else self._data.estimate.high_bytes

    @property
    def retained_bytes(self) -> int:
        """Allocated during the recording and alive at its end."""
        return self._data.retained_bytes

    @property
    def exact(self) -> bool:
        """Whether every change was seen; if not, the peak may have been higher."""
        return self._data.exact

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What was allocated and stayed, by holder, largest first: rows with `name` (``None`` if
        no holder was found), `bytes`, `count`, `category`, `line`, `hint`."""
        return self._data.kept

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences on what was not seen, or assumed."""
        return self._data.notes

    def at_peak(self, by: By = "category") -> tuple[Row, ...]:
        """The parts of the peak, largest first: rows with `name`, `bytes`, `count` (of blocks),
        which add up to `peak_bytes`.

        Args:
            by: ``"category"``, ``"line"``, ``"module"`` or ``"op"``.

        Raises:
            RecordingError: there is no such dimension.
        """
        if by not in DIMENSIONS:
            raise RecordingError(f"A report knows no {by!r}. There is: {', '.join(DIMENSIONS)}.")
        return self._data.rows(by)

    def compared_with(self, before: Report) -> Report:
        """This report with its differences from an earlier one."""
        from jupyter_vram.analysis.compare import compared

        return Report(compared(self._data, before._data), self._trace)

    def without_events(self) -> Report:
        """The same figures, which can't be exported as events any more."""
        return Report(self._data)

    def to_dict(self) -> dict[str, Any]:
        """All figures, as what ``json.dumps`` takes; bytes are integers."""
        return to_json(self._data)

    # --- what a person sees ----------------------------------------------------------------------

    def table(self, by: By = "category") -> str:
        """The parts of the peak as aligned text. Raises `RecordingError` as `at_peak` does."""
        from jupyter_vram.render.text import format_bytes, table

        rows = self.at_peak(by)
        return table(
            (by, "bytes", "blocks"),
            [(row.name, format_bytes(row.bytes), str(row.count)) for row in rows]
            + [("peak", format_bytes(self.peak_bytes), str(sum(row.count for row in rows)))],
        )

    def figure(self) -> plotly.graph_objects.Figure:
        """The time line as a Plotly figure, stacked by category, with the peak and the phases."""
        from jupyter_vram.render.report_figure import timeline_figure

        return timeline_figure(self._data)

    def __str__(self) -> str:
        from jupyter_vram.render.report_text import report_text

        return report_text(self._data)

    def __repr__(self) -> str:
        from jupyter_vram.render.report_text import headline

        return f"<Report: {headline(self._data)}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self._data == other._data

    def mime_bundle(self, *, plot: bool = True, by: By | None = None) -> dict[str, object]:
        """What a notebook shows and saves: our own mime type, HTML and text, 300 kB at most.

        Args:
            plot: with the time line.
            by: the dimension that is shown first.
        """
        from jupyter_vram.render.report_bundle import bundle

        data = self._data if by is None else dataclasses.replace(self._data, detail=by)
        return bundle(data, plot=plot)

    def _repr_mimebundle_(self, **_kwargs: object) -> dict[str, object]:
        return self.mime_bundle()

    # --- files -----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the report; the name's ending says as what.

        ``.json`` (loads back to an equal report), ``.pickle`` (for pytorch.org/memory_viz),
        ``.perfetto.json`` (for ui.perfetto.dev), ``.html``, ``.txt``. Returns the path.

        Raises:
            RecordingError: another ending, or the events are wanted and no longer there.
            OSError: it can't be written.
        """
        path = Path(path).expanduser()
        suffix = next(
            (known for known in sorted(SUFFIXES, key=len)[::-1] if path.name.endswith(known)), None
        )
        if suffix is None:
            known = "; ".join(f"{ending}: {what}" for ending, what in SUFFIXES.items())
            raise RecordingError(f"{path.name} does not say what to write. Endings are {known}.")
        content = self._content(suffix)
        partial = path.with_name(f".{path.name}.part")
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        return path

    def _content(self, suffix: str) -> bytes:
        if suffix == ".json":
            return json.dumps(self.to_dict(), ensure_ascii=False).encode()
        if suffix == ".txt":
            return f"{self}\n".encode()
        if suffix == ".html":
            from jupyter_vram.render.report_page import report_page

            return report_page(self._data).encode()
        if self._trace is None:
            raise RecordingError(NO_EVENTS.format(suffix=suffix))
        from jupyter_vram.analysis.categories import categorize
        from jupyter_vram.render import memory_viz, perfetto

        categories = categorize(self._trace)
        if suffix == ".pickle":
            return memory_viz.dumps(self._trace, categories)
        return perfetto.dumps(self._trace, categories)
