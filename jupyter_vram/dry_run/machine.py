"""This machine's own GPU, as one to fit."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from functools import lru_cache

from jupyter_vram.errors import UnknownGpuError
from jupyter_vram.model.gpus import Gpu, gpu_named
from jupyter_vram.model.overheads import Overhead
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.source import ReadRequest

_UNKNOWN = Gpu("", 0, None, (8, 0), 108)
_TIMEOUT_S = 60.0
_PROBE = """
import os
import torch
x = torch.ones(64, 64, device="cuda", requires_grad=True)
(x @ x).square().mean().backward()
torch.optim.AdamW([x]).step()
torch.cuda.synchronize()
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.source import ReadRequest
for sample in NvmlSource().read(ReadRequest(watched=True)).devices:
    for process in sample.processes or ():
        if process.pid == os.getpid() and process.used_bytes is not None:
            print(process.used_bytes - torch.cuda.memory_reserved())
"""


@lru_cache(1)
def machine_gpu() -> Gpu | None:
    """The first GPU of this machine; ``None`` if it has none."""
    source = NvmlSource()
    try:
        samples = source.read(ReadRequest(processes=False, watched=True)).devices
    finally:
        source.close()
    for sample in samples:
        if sample.total_bytes is not None:
            try:
                known = gpu_named(sample.device.name)
            except UnknownGpuError:
                known = _UNKNOWN
            return dataclasses.replace(
                known,
                name=sample.device.name,
                total_bytes=sample.total_bytes,
                reserved_bytes=sample.driver_reserved_bytes,
            )
    return None


@lru_cache(1)
def measured_context() -> Overhead | None:
    """What a process holds here beside its tensors: measured once, in a process that ends.

    ``None`` where there is no GPU, or the driver does not tell.
    """
    if machine_gpu() is None:
        return None
    result = subprocess.run(
        [sys.executable, "-c", _PROBE],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env=dict(os.environ),
        check=False,
    )
    found = result.stdout.strip()
    if result.returncode != 0 or not found.isdecimal():
        return None
    size_bytes = int(found)
    # More kernels are loaded as more are used.
    return Overhead(
        size_bytes, size_bytes, size_bytes + size_bytes // 4, "measured on this machine"
    )
