"""A day of the server in one process: ``python day.py TICKS RESTART_S [trace]``, a tick a second.

All that the server does with a measurement is done, with a clock that does not wait: whose bytes
they are, the history, the tick, and its text for five streams. Prints what memory did, as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

from benchmarks.results import Result  # noqa: E402
from benchmarks.workload import ALL_DAY_S, Moment, moment  # noqa: E402
from jupyter_vram.analysis.ownership import assemble  # noqa: E402
from jupyter_vram.model.wire import TickBuilder  # noqa: E402
from jupyter_vram.recorders.history import History  # noqa: E402
from jupyter_vram.server.hub import Hub, encode  # noqa: E402

HOUR = 3_600
DAY = 24 * HOUR
TRACED = HOUR
"""Tracing takes several times as long: by then the part of the history at full rate is full."""
STREAMS = 5
WARM_UP = 60
START = 1_764_547_200.0
MB = 1e6


class _Watch:
    interval_s = 0.1

    def close(self) -> None:
        """Nothing is measured."""


class Pipeline:
    """What the server's service does with each measurement."""

    def __init__(self) -> None:
        self.history = History()
        self.hub = Hub()
        self._builder = TickBuilder()
        self._sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent.set_result(None)

    def _send(self, _text: str) -> asyncio.Future[None]:
        return self._sent

    def turn(self, now: Moment) -> None:
        snapshot = assemble(now.measurement, now.sessions)
        self.history.append(snapshot)
        tick = self._builder.build(snapshot)
        if not len(self.hub):
            for _ in range(STREAMS):
                self.hub.join(self._send, _Watch(), tick)
        self.hub.publish(tick)


async def live(ticks: int, restart_s: int, trace: bool) -> dict[str, Any]:
    """`ticks` seconds, and what memory did after the first minute, in bytes.

    Each kernel is replaced by a new one every `restart_s` seconds.
    """
    pipeline = Pipeline()
    process = psutil.Process()
    for second in range(WARM_UP):
        pipeline.turn(moment(second, START, restart_s))
        await asyncio.sleep(0)
    gc.collect()
    if trace:
        tracemalloc.start()
    rss = process.memory_info().rss
    cpu_s = 0.0
    course = []
    for second in range(WARM_UP, ticks):
        now = moment(second, START, restart_s)
        began = time.process_time()
        pipeline.turn(now)
        cpu_s += time.process_time() - began
        await asyncio.sleep(0)
        if (second + 1) % max(1, ticks // 24) == 0:
            course.append(process.memory_info().rss - rss)
    gc.collect()
    return {
        "ticks": ticks,
        "rss_growth_bytes": process.memory_info().rss - rss,
        "rss_growth_by_hour_bytes": course,
        "traced_growth_bytes": tracemalloc.get_traced_memory()[0] if trace else None,
        "largest": _largest() if trace else None,
        "history_bytes": pipeline.history.nbytes,
        "cpu_s_per_tick": cpu_s / (ticks - WARM_UP),
    }


def _largest() -> list[str]:
    """The lines that allocated most of what is still held."""
    found = tracemalloc.take_snapshot().statistics("lineno")[:10]
    return [
        f"{entry.traceback[0].filename.removeprefix(f'{ROOT}/')}:{entry.traceback[0].lineno}:"
        f" {entry.size / 1e3:.0f} kB in {entry.count}"
        for entry in found
    ]


def tick_bytes() -> int:
    """The text of a tick of 8 GPUs and 10 kernels, whose figures all moved."""
    builder = TickBuilder()
    first, second = (
        builder.build(assemble(now.measurement, now.sessions))
        for now in (moment(1000, START), moment(1001, START))
    )
    return len(encode(second.message(first.revisions)).encode())


def measure(*, quick: bool) -> tuple[list[Result], dict[str, Any]]:
    """The results, and all that was seen."""
    ticks = 7_200 if quick else DAY
    traced_ticks = min(ticks, TRACED)
    runs = {
        "same_kernels": _run(ticks, ALL_DAY_S),
        "new_kernels": _run(ticks, HOUR),
        "traced": _run(traced_ticks, HOUR, "trace"),
    }
    seen = {name: _answer(run) for name, run in runs.items()}
    plain = seen["same_kernels"]
    results = [
        Result(
            part="memory",
            name=f"server's growth over {ticks:,} ticks, the same 10 kernels",
            value=plain["rss_growth_bytes"] / MB,
            unit="MB",
            goal=5,
            note="resident memory; 8 GPUs, 5 streams",
        ),
        Result(
            part="memory",
            name=f"server's growth over {ticks:,} ticks, each kernel replaced hourly",
            value=seen["new_kernels"]["rss_growth_bytes"] / MB,
            unit="MB",
            goal=5,
            note="240 kernels and some 19,000 runs of cells in a day",
        ),
        Result(
            part="memory",
            name=f"Python's objects (tracemalloc) after {traced_ticks:,} ticks, replaced hourly",
            value=seen["traced"]["traced_growth_bytes"] / MB,
            unit="MB",
        ),
        Result(
            part="memory",
            name="of that, figures of the history, the same 10 kernels",
            value=plain["history_bytes"] / MB,
            unit="MB",
        ),
        Result(
            part="tick",
            name="8 GPUs and 10 kernels, all figures moved",
            value=tick_bytes(),
            unit="B",
            goal=2000,
        ),
        Result(
            part="tick",
            name="CPU from measurement to text",
            value=1e3 * plain["cpu_s_per_tick"],
            unit="ms",
            note="8 GPUs, 10 kernels",
        ),
    ]
    return results, seen


def _run(ticks: int, restart_s: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, str(ticks), str(restart_s), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _answer(run: subprocess.Popen[str]) -> Any:
    output, _ = run.communicate()
    if run.returncode:
        raise RuntimeError(f"the simulated day ended with {run.returncode}")
    return json.loads(output)


if __name__ == "__main__":
    print(
        json.dumps(asyncio.run(live(int(sys.argv[1]), int(sys.argv[2]), "trace" in sys.argv[3:])))
    )
