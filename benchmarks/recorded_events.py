"""Long histories of events: ``recorded_events.py COMMAND …``.

    file SUBJECT PATH     a snapshot's pickle → what a user opens
    trace EVENTS ROUNDS   a recording's columns → its report

Prints what it measured as JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from benchmarks import measured, snapshots  # noqa: E402

OURS = "jupyter_vram"
TRACE_PLOT = "torch's trace_plot"
WARM_UP_EVENTS = 300


def read_ours(path: Path) -> tuple[Callable[[], Any], Callable[[Any], int]]:
    """How to load, and how to render (→ bytes that the output has)."""
    from jupyter_vram.report import Report

    def render(report: Any) -> int:
        return len(json.dumps(report.mime_bundle()))

    return lambda: Report.load(path), render


def read_torch(path: Path) -> tuple[Callable[[], Any], Callable[[Any], int]]:
    """As ``python -m torch.cuda._memory_viz trace_plot`` does."""
    import pickle

    from torch.cuda import _memory_viz

    def render(data: Any) -> int:
        page: str = _memory_viz.trace_plot(data)
        path.with_suffix(".html").write_text(page)
        return len(page)

    return lambda: pickle.loads(path.read_bytes()), render


SUBJECTS = {OURS: read_ours, TRACE_PLOT: read_torch}


def file(subject: str, path: Path) -> dict[str, Any]:
    """Seconds to load (for ours: with the analysis) and to render; bytes of the output and of the
    process at its largest. Imports are done before."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.pickle"
        snapshots.write(small, WARM_UP_EVENTS)
        load, render = SUBJECTS[subject](small)
        render(load())
    gc.collect()
    before = measured.resident_bytes()
    measured.reset_peak()
    load, render = SUBJECTS[subject](path)
    began, own = time.perf_counter(), time.process_time()
    loaded = load()
    middle = time.perf_counter()
    output_bytes = render(loaded)
    ended = time.perf_counter()
    return {
        "load_s": middle - began,
        "render_s": ended - middle,
        "cpu_s": time.process_time() - own,
        "output_bytes": output_bytes,
        "resident_before_bytes": before,
        "peak_bytes": measured.peak_resident_bytes(),
    }


def trace(events: int, rounds: int) -> dict[str, Any]:
    """Seconds, each round: the peak and its parts in all dimensions; the whole report."""
    from jupyter_vram.analysis.attribution import rows_at
    from jupyter_vram.analysis.categories import categorize
    from jupyter_vram.analysis.cell_report import report_data
    from jupyter_vram.analysis.live import peak_event
    from jupyter_vram.model.report_data import DIMENSIONS
    from jupyter_vram.model.trace import Recording

    recorded = snapshots.trace(events)
    recording = Recording(traces=(recorded,))
    report_data(Recording(traces=(snapshots.trace(WARM_UP_EVENTS),)))
    grouping, report = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        category = categorize(recorded)
        peak = peak_event(recorded)
        for by in DIMENSIONS:
            rows_at(recorded, category, peak, by)
        grouping.append(time.perf_counter() - began)
        began = time.perf_counter()
        report_data(recording)
        report.append(time.perf_counter() - began)
    return {"grouping_s": grouping, "report_s": report}


def main() -> dict[str, Any]:
    command, *words = sys.argv[1:]
    if command == "file":
        return file(words[0], Path(words[1]))
    if command == "trace":
        return trace(int(words[0]), int(words[1]))
    raise SystemExit(__doc__)


if __name__ == "__main__":
    print(json.dumps(main()))
