"""What recording a cell costs, beside the other tools that measure a cell's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks import recording_peers
from benchmarks.recorded_cells import (
    BARE,
    GPT,
    MEM_TRACKER,
    MEMLAB,
    MEMORY_PROFILER,
    PROFILER,
    RECORD,
    TINY,
    VRAM,
)
from benchmarks.results import Result, median_interval

SCRIPT = Path(__file__).with_name("recorded_cells.py")
OURS = (VRAM, RECORD)
PEERS = (MEM_TRACKER, PROFILER, MEMORY_PROFILER, MEMLAB)
GOALS = {GPT: 1.05, TINY: 1.5}
CALLS = 2_000_000
MB = 1e6

Round = Mapping[str, float]


def ask(script: Path, *words: str, python: str = sys.executable, **env: str) -> Any:
    """What a script of ours prints as JSON; the last line, since torch may say something, too.

    Raises:
        RuntimeError: it failed.
    """
    done = subprocess.run(
        [python, str(script), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **env},
    )
    if done.returncode:
        raise RuntimeError(f"{script.name} {' '.join(words)}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def slowdown(folder: Path, *, quick: bool, with_peers: bool) -> tuple[list[Result], Any]:
    """The results, and every single time in seconds."""
    rounds = {GPT: 3 if quick else 15, TINY: 5 if quick else 30}
    subjects = (*OURS, *PEERS) if with_peers else OURS
    python = str(recording_peers.python()) if with_peers else sys.executable
    results, raw = [], {}
    for work, count in rounds.items():
        found = ask(
            *(SCRIPT, "slowdown", work, str(count), *subjects),
            python=python,
            IPYTHONDIR=str(folder / "ipython"),
        )
        raw[work] = found
        results += slower(work, found["times"], found["reasons"])
    return results, raw


def slower(
    work: str, times: Mapping[str, Sequence[Round]], reasons: Mapping[str, str]
) -> list[Result]:
    """Per tool: how many times as long the work takes, and what comes before and after it."""
    results = []
    for subject, rounds in times.items():
        if subject == BARE:
            continue
        low, high = median_interval(ratios := ratios_of(times[BARE], rounds, "work_s"))
        cpu = median(ratios_of(times[BARE], rounds, "cpu_s"))
        around = [1e3 * (r["all_s"] - r["work_s"]) for r in rounds]
        bare_around = median(1e3 * (r["all_s"] - r["work_s"]) for r in times[BARE])
        results += [
            Result(
                part="slowdown",
                name=f"{work} under {subject}",
                value=median(ratios),
                unit="×",
                goal=GOALS[work] if subject in OURS else None,
                low=low,
                high=high,
                note=f"median of {len(ratios)} rounds, 95 % interval; in CPU time {cpu:.3g} ×",
            ),
            Result(
                part="slowdown",
                name=f"{work}: start, stop and report of {subject}",
                value=median(around) - bare_around,
                unit="ms",
                note="what the cell takes beside its work, less what a bare one does",
            ),
        ]
    results += [
        Result(part="slowdown", name=f"{work} under {subject}", value=None, unit="×", note=reason)
        for subject, reason in reasons.items()
    ]
    return results


def ratios_of(bare: Sequence[Round], rounds: Sequence[Round], field: str) -> list[float]:
    """Of each round's time: divided by the bare ones' of the same round."""
    return [
        one[field] / mean(other[field] for other in bare if other["round"] == one["round"])
        for one in rounds
    ]


def calls(folder: Path, *, quick: bool, with_peers: bool) -> tuple[list[Result], Any]:
    """The results, and all that each process said."""
    subjects = (BARE, VRAM, *((PROFILER,) if with_peers else ()))
    raw: dict[str, list[Any]] = {subject: [] for subject in subjects}
    count = CALLS // 10 if quick else CALLS
    for _ in range(2 if quick else 7):
        for subject in subjects:
            found = ask(SCRIPT, "calls", str(count), subject, IPYTHONDIR=str(folder / "ipython"))
            raw[subject].append(found)
    results = []
    for subject in subjects[1:]:
        pairs = list(zip(raw[subject], raw[BARE], strict=True))
        seconds = [own["all_s"] - bare["all_s"] for own, bare in pairs]
        grown = [(own["grown_bytes"] - bare["grown_bytes"]) / MB for own, bare in pairs]
        for what, values, unit, goal in (
            ("longer", seconds, "s", 1.5),
            ("larger at most", grown, "MB", 50.0),
        ):
            low, high = median_interval(values)
            results.append(
                Result(
                    part="calls",
                    name=f"a cell of {count:,} calls under {subject}: {what}",
                    value=median(values),
                    unit=unit,
                    goal=goal if subject == VRAM else None,
                    low=low,
                    high=high,
                    note=f"median of {len(values)} pairs of new processes, 95 % interval",
                )
            )
    return results, raw


def extension(folder: Path, *, quick: bool) -> tuple[list[Result], Any]:
    """The result, and all that each process said."""
    found = [
        ask(SCRIPT, "extension", IPYTHONDIR=str(folder / "ipython"))
        for _ in range(5 if quick else 20)
    ]
    if any(one["torch"] for one in found):
        raise RuntimeError("%load_ext has loaded torch")
    times = [1e3 * one["load_s"] for one in found]
    low, high = median_interval(times)
    result = Result(
        part="extension",
        name="%load_ext jupyter_vram, torch not loaded",
        value=median(times),
        unit="ms",
        goal=100,
        low=low,
        high=high,
        note=f"median of {len(times)} new processes, 95 % interval",
    )
    return [result], found
