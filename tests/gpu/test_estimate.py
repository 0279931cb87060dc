"""Dry runs against the real ones on a GPU: torch's own counters, and the driver's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import gc, json, sys
import torch
import jupyter_vram
from benchmarks.estimate_workloads import WORKLOADS
from jupyter_vram.dry_run.machine import measured_context

(workload,) = [one for one in WORKLOADS if one.__name__ == sys.argv[1]]
# Before CUDA is used here: afterwards a fork can't compute.
dry = jupyter_vram.estimate(workload, args=("cuda",))
simulated = dry.to_dict()["allocator"]
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
    "simulated": simulated["peak_reserved_bytes"],
    "low": dry.low, "high": dry.high,
}))
"""


def figures(workload: str) -> dict[str, Any]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    result = subprocess.run(
        [sys.executable, "-c", CODE, workload],
        env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    "workload", ["gpt2_eager", "llama_sdpa", "bert_autocast", "resnet", "unet", "accumulation"]
)
def test_peaks_are_those_of_the_gpu(workload: str) -> None:
    found = figures(workload)
    # Workspaces of libraries are allocated, and no tensors.
    allocated = found["allocated"] - found["base"]
    assert found["tensors"] >= 0.95 * allocated, found
    assert found["tensors"] <= 1.08 * found["allocated"], found
    assert found["simulated"] >= 0.92 * (found["reserved"] - found["base"]), found
