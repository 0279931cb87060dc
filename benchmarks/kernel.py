"""What a kernel pays: its main thread while the reporter runs, each cell, importing the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import Result, median_interval, percentile
from support.kernels import Kernel, Kernels

LOOPS = {
    "a Python loop": """
def work():
    total = 0
    for number in range(COUNT):
        total += number * number % 7
    return total
""",
    "a torch training loop": """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.AdamW(net.parameters())
inputs, targets = torch.randn(64, 256), torch.randint(0, 10, (64,))
def work():
    for _ in range(COUNT):
        loss = torch.nn.functional.cross_entropy(net(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
}

# In one kernel, since two processes differ by more than what is looked for. The thread's CPU time
# is what the loop took itself; the wall clock also shows what it waited for the GIL.
HARNESS = """
import json, time
def once():
    wall, own = time.perf_counter(), time.thread_time()
    work()
    return time.perf_counter() - wall, time.thread_time() - own
COUNT = 1000
seconds = min(once()[0] for _ in range(3))
COUNT = max(1, round(COUNT * SLICE_S / seconds))
once()
"""
MEASURE = "print(json.dumps([once() for _ in range(SLICES)]))"
THREAD_CPU = """
import threading
clock = next(time.pthread_getcpuclockid(t.ident) for t in threading.enumerate()
             if t.name == "jupyter-vram-reporter")
began = time.perf_counter(), time.clock_gettime(clock)
while time.perf_counter() - began[0] < 5:
    work()
print(json.dumps((time.clock_gettime(clock) - began[1]) / (time.perf_counter() - began[0])))
"""
# Beside the reporter, which each begin and end wakes.
CELL = """
import json, time
from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult
events = get_ipython().events.callbacks
begin, = [c for c in events["pre_run_cell"] if c.__module__ == "jupyter_vram.kernel.cells"]
end, = [c for c in events["post_run_cell"] if c.__module__ == "jupyter_vram.kernel.cells"]
begin.__self__._open.clear()
code = "model.train()\\n" * 100
def cell():
    info = ExecutionInfo(code, True, False, True, None)
    result = ExecutionResult(info)
    began = time.perf_counter()
    begin(info)
    middle = time.perf_counter()
    end(result)
    return middle - began + time.perf_counter() - middle
times = []
while len(times) < COUNT:
    times.append(cell())
    time.sleep(0.002)
print(json.dumps(times))
"""
SLICE_S = 0.5
"""A report each is due in: the least of several slices is not one without any."""
SLICES = 2


def measure(folder: Path, *, quick: bool) -> tuple[list[Result], dict[str, Any]]:
    """The results, and every single time in seconds."""
    pairs = 6 if quick else 20
    results: list[Result] = []
    raw: dict[str, Any] = {}
    for what, code in LOOPS.items():
        home = folder / what.replace(" ", "-")
        (home / "runtime").mkdir(parents=True)
        # By hand, so that it can be taken out again.
        env = {**os.environ, "JUPYTER_VRAM_KERNEL": "0", "IPYTHONDIR": str(home / "ipython")}
        kernels = Kernels(home, env)
        try:
            wall, thread, share = slow_down(kernels.start(), code, pairs)
        finally:
            kernels.stop()
        raw[what] = {"wall_percent": wall, "thread_cpu_percent": thread}
        results += [
            slower(f"{what} slower while the reporter runs, by the clock", wall),
            slower(f"{what} slower, by its own thread's CPU time", thread),
            Result(
                part="kernel",
                name=f"CPU of the reporter's thread beside {what}",
                value=100 * share,
                unit="% of a core",
                goal=0.5,
                note="what it can take from the main thread at most",
            ),
        ]
    cells = cell_times(folder / "cells", 200 if quick else 2000)
    results.append(cell_cost("begin and end of a cell, torch loaded, no GPU", cells))
    raw["cell_s"] = cells
    imports = _imports(5 if quick else 20)
    own = [1e3 * (full - bare) for full, bare in imports]
    low, high = median_interval(own)
    results.append(
        Result(
            part="kernel",
            name="import jupyter_vram",
            value=median(own),
            unit="ms",
            goal=50,
            low=low,
            high=high,
            note=f"median of {len(own)} new processes, less a bare interpreter's",
        )
    )
    return results, {**raw, "import_s": imports}


def cell_times(home: Path, count: int, before: str = "import torch", **env: str) -> list[float]:
    """Seconds that the begin and the end of a cell take together, in a kernel that ran `before`."""
    (home / "runtime").mkdir(parents=True)
    env = {**os.environ, "JUPYTER_VRAM_KERNEL": "0", "IPYTHONDIR": str(home / "ipython"), **env}
    kernels = Kernels(home, env)
    try:
        kernel = kernels.start()
        kernel.run("%load_ext jupyter_vram")
        kernel.run(before)
        times = _printed(kernel, f"COUNT = {count}\n{CELL}")
    finally:
        kernels.stop()
    assert isinstance(times, list)
    return times


def cell_cost(name: str, times: list[float]) -> Result:
    """What nine of ten cells stay below."""
    return Result(
        part="kernel",
        name=name,
        value=1e3 * percentile(times, 90),
        unit="ms",
        goal=1.0,
        note=f"90 % of {len(times)} stay below; median {1e3 * median(times):.2g} ms",
    )


def slower(name: str, percents: list[float]) -> Result:
    low, high = median_interval(percents)
    return Result(
        part="kernel",
        name=name,
        value=median(percents),
        unit="%",
        goal=0.5,
        low=low,
        high=high,
        note=f"median of {len(percents)} pairs of {SLICES * SLICE_S:g} s each, 95 % interval",
    )


def slow_down(kernel: Kernel, code: str, pairs: int) -> tuple[list[float], list[float], float]:
    """For each pair, by how many percent the loop took longer with the reporter than without it
    (wall clock, thread's CPU time); and the reporter's share of a core."""
    kernel.run(code)
    kernel.run(f"SLICE_S, SLICES = {SLICE_S}, {SLICES}\n{HARNESS}")
    wall, thread = [], []
    for pair in range(pairs):
        taken = {}
        for on in (False, True) if pair % 2 else (True, False):
            kernel.run(f"%{'load' if on else 'unload'}_ext jupyter_vram")
            times = _printed(kernel, MEASURE)
            taken[on] = [min(column) for column in zip(*times, strict=True)]
        wall.append(100 * (taken[True][0] / taken[False][0] - 1))
        thread.append(100 * (taken[True][1] / taken[False][1] - 1))
    kernel.run("%load_ext jupyter_vram")
    return wall, thread, float(_printed(kernel, THREAD_CPU))


def _printed(kernel: Kernel, code: str) -> Any:
    outputs = kernel.run(code)
    text = "".join(o["content"]["text"] for o in outputs if o["content"].get("name") == "stdout")
    return json.loads(text)


def _imports(count: int) -> list[tuple[float, float]]:
    """Seconds of `count` new processes that import the package, and of as many that do not."""
    for code in ("import jupyter_vram", "pass"):
        _process_s(code)
    return [(_process_s("import jupyter_vram"), _process_s("pass")) for _ in range(count)]


def _process_s(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began
