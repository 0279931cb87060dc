"""What it takes to make a report from a long history of events, beside torch's own viewer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import snapshots
from benchmarks.recorded_events import OURS, TRACE_PLOT
from benchmarks.recording import ask
from benchmarks.results import Result, median_interval

SCRIPT = Path(__file__).with_name("recorded_events.py")
EVENTS = 1_000_000
SIZES = (10_000, 100_000, EVENTS, 10_000_000)
MB = 1e6


def measure(folder: Path, *, quick: bool, with_peer: bool) -> tuple[list[Result], Any]:
    """The results, and all that each process said."""
    events = EVENTS // 10 if quick else EVENTS
    path = folder / "snapshot.pickle"
    snapshots.write(path, events)
    subjects = (OURS, TRACE_PLOT) if with_peer else (OURS,)
    files: dict[str, list[Any]] = {subject: [] for subject in subjects}
    for _ in range(2 if quick else 7):
        for subject in subjects:
            files[subject].append(ask(SCRIPT, "file", subject, str(path)))
    path.unlink()
    sizes = SIZES[:-1] if quick else SIZES
    traces = {size: ask(SCRIPT, "trace", str(size), "5") for size in sizes}
    results = [result for subject in subjects for result in of_file(subject, files[subject])]
    return [*results, *of_traces(traces)], {"files": files, "traces": traces}


def of_file(subject: str, runs: Sequence[Mapping[str, float]]) -> list[Result]:
    """A snapshot's pickle to what a user opens: seconds, and how large the process became."""
    seconds = [run["load_s"] + run["render_s"] for run in runs]
    peaks = [run["peak_bytes"] / MB for run in runs]
    parts = ", ".join(
        f"{what} {median(run[field] for run in runs):.2g} s"
        for what, field in (("load", "load_s"), ("render", "render_s"), ("CPU", "cpu_s"))
    )
    is_ours = subject == OURS
    return [
        Result(
            part="events",
            name=f"pickle to rendered report, {subject}",
            value=median(seconds),
            unit="s",
            goal=2.5 if is_ours else None,
            low=median_interval(seconds)[0],
            high=median_interval(seconds)[1],
            note=f"median of {len(runs)} new processes, 95 % interval; {parts}",
        ),
        Result(
            part="events",
            name=f"peak resident memory of that, {subject}",
            value=median(peaks),
            unit="MB",
            goal=600 if is_ours else None,
            low=median_interval(peaks)[0],
            high=median_interval(peaks)[1],
            note=f"{median(run['resident_before_bytes'] for run in runs) / MB:.0f} MB before",
        ),
        Result(
            part="events",
            name=f"size of its output, {subject}",
            value=median(run["output_bytes"] for run in runs) / MB,
            unit="MB",
        ),
    ]


def of_traces(traces: Mapping[int, Mapping[str, Sequence[float]]]) -> list[Result]:
    """Columns to figures: seconds, and how they grow with the number of events."""
    results = []
    for size, times in traces.items():
        for what, field in (("peak and grouping", "grouping_s"), ("report", "report_s")):
            low, high = median_interval(times[field])
            results.append(
                Result(
                    part="events",
                    name=f"{what} of {size:,} events",
                    value=median(times[field]),
                    unit="s",
                    goal=0.2 if (size, field) == (EVENTS, "grouping_s") else None,
                    low=low,
                    high=high,
                )
            )
    first, last = min(traces), max(traces)
    growth = median(traces[last]["report_s"]) / median(traces[first]["report_s"])
    results.append(
        Result(
            part="events",
            name=f"growth of the report's time from {first:,} to {last:,} events",
            value=math.log(growth) / math.log(last / first),
            unit="(exponent)",
            goal=1.05,
            note="1 is linear; below it, the fixed part of a short recording still counts",
        )
    )
    return results
