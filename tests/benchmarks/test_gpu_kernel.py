"""What is measured of a kernel on a GPU, tried on the stand-in for one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import gpu_kernel
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.source import ReadRequest
from support.browser import gpu_env
from support.cuda_standin import CONTEXT_BYTES
from support.fake_nvml import FakeNvml
from support.kernels import Kernel, Kernels

# Its memory is bookkeeping only, so torch.empty gives names for blocks in place of tensors.
STAND_IN = """
import os, torch
from support.cuda_standin import install
gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])
class Block:
    def __init__(self, size_bytes):
        self.name = gpu.allocate(None, size_bytes)
    def __del__(self):
        gpu.free(self.name)
torch.empty = lambda size_bytes, **_: Block(size_bytes)
torch.cuda.synchronize = lambda: None
torch.cuda.mem_get_info = lambda: (gpu._free_bytes, gpu._device.total_bytes)
"""


@pytest.fixture
def kernel(loaded_nvml: FakeNvml, tmp_path: Path) -> Iterator[Kernel]:
    (tmp_path / "runtime").mkdir()
    env = {**os.environ, **gpu_env(loaded_nvml), "JUPYTER_VRAM_KERNEL": "0"}
    kernels = Kernels(tmp_path, {**env, "IPYTHONDIR": str(tmp_path / "ipython")})
    started = kernels.start()
    started.run("%load_ext jupyter_vram")
    yield started
    kernels.stop()


def test_figures_of_a_kernel_that_uses_a_gpu(kernel: Kernel, loaded_nvml: FakeNvml) -> None:
    source = NvmlSource()
    before = source.read(ReadRequest())
    kernel.run("import torch")
    (untouched,), seen = gpu_kernel.no_context(kernel, source, before)
    assert untouched.verdict == "met"
    assert seen["listed"] == [0, 0]

    kernel.run(STAND_IN)
    (after_all,), _ = gpu_kernel.no_context(kernel, source, before)
    assert after_all.verdict == "missed"  # it would be seen

    results, told = gpu_kernel.told_apart(kernel, source)
    judged = {result.name: result.verdict for result in results if result.goal is not None}
    assert len(judged) == 3
    assert set(judged.values()) == {"met"}
    assert told["parts"] == {
        "allocated": gpu_kernel.HELD_BYTES,
        "reserved_free": gpu_kernel.FREED_BYTES,
        "context": CONTEXT_BYTES,
    }

    (latency,), taken = gpu_kernel.report_latency(kernel, 3)
    assert len(taken) == 3
    assert latency.value is not None
    assert latency.value > 0
    source.close()
