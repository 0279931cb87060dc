"""Dry runs against the real ones on a GPU: torch's own counters, for each workload in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.results import Result

ROOT = Path(__file__).resolve().parent.parent
CODE = """
import gc, json, sys
import torch
import jupyter_vram
from benchmarks.estimate_workloads import WORKLOADS

(workload,) = [one for one in WORKLOADS if one.__name__ == sys.argv[1]]
# Before CUDA is used here: afterwards a fork can't compute.
dry = jupyter_vram.estimate(workload, args=("cuda",))
workload("cuda")  # kernels are loaded, workspaces taken
gc.collect()
torch.cuda.empty_cache()
torch.cuda.reset_peak_memory_stats()
base = torch.cuda.memory_allocated()
workload("cuda")
print(json.dumps({
    "base": base,
    "allocated": torch.cuda.max_memory_allocated(),
    "reserved": torch.cuda.max_memory_reserved(),
    "tensors": dry.peak_bytes,
    "simulated": dry.to_dict()["allocator"]["peak_reserved_bytes"],
    "device": dry.peak_device_bytes, "low": dry.low, "high": dry.high,
}))
"""


def figures(workload: str) -> dict[str, Any]:
    """Of one workload, in bytes; `base` is what libraries held before."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    result = subprocess.run(
        [sys.executable, "-c", CODE, workload],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(f"{workload}: {result.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def measure(*, quick: bool = False) -> tuple[list[Result], dict[str, Any]]:
    """Errors of the tensors' peak and of what is reserved, in percent; negative: too low."""
    from benchmarks.estimate_workloads import WORKLOADS

    raw: dict[str, Any] = {}
    found: list[Result] = []
    errors: list[float] = []
    for workload in WORKLOADS[:4] if quick else WORKLOADS:
        one = raw[workload.__name__] = figures(workload.__name__)
        for name, predicted, real in (
            ("allocated", one["tensors"], one["allocated"] - one["base"]),
            ("reserved", one["simulated"], one["reserved"]),
        ):
            error = 100 * (predicted / real - 1)
            errors.append(abs(error))
            found.append(
                Result(part="estimate", name=f"{workload.__name__}, {name}", value=error, unit="%")
            )
    summary = [
        Result(part="estimate", name="median error", value=median(errors), unit="%", goal=2.0),
        Result(part="estimate", name="worst error", value=max(errors), unit="%", goal=8.0),
    ]
    return [*summary, *found], raw
