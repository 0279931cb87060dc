"""Autocast does on shapes what it does on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from jupyter_vram.dry_run.autocast_lists import CPU, CUDA
from jupyter_vram.dry_run.emulation import Emulation
from support.children import emulated


@pytest.mark.parametrize(("key", "lists"), [("AutocastCUDA", CUDA), ("AutocastCPU", CPU)])
def test_lists_are_those_of_this_torch(key: str, lists: Any) -> None:
    ours = set().union(*lists)
    theirs = {
        name.removeprefix("aten::")
        for name in torch._C._dispatch_get_all_op_names()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    } - {"binary_cross_entropy"}  # CUDA's refuses
    assert ours <= theirs | {"binary_cross_entropy"}
    missing = theirs - ours
    if key == "AutocastCPU":  # see the lists: linear algebra and Fourier transforms
        few = ("fft", "linalg", "cholesky", "qr", "svd", "inverse", "_lu", "lu_", "geqrf", "or")
        missing = {name for name in missing if not name.startswith(few)}
        missing -= {"pinverse", "triangular_solve", "fake_quantize_per_tensor_affine"}
        missing -= {"_grid_sampler_2d_cpu_fallback"}
    assert not missing


def test_types_of_results() -> None:
    def job(_: Emulation) -> list[str]:
        x = torch.randn(4, 4, device="cuda")
        net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2)).cuda()
        with torch.autocast("cuda", dtype=torch.float16):
            half = x @ x
            results = [
                *(half, half.exp(), half.softmax(0), half.sum(), half + x, half + half),
                *(torch.dot(half[0], x[0]), net(x), nn.functional.cross_entropy(half, x)),
                *(half.double() @ half.double(), nn.functional.conv1d(x[None], x[None])),
            ]
            found = [str(result.dtype).removeprefix("torch.") for result in results]
            with torch.autocast("cuda", enabled=False):
                found.append(str((x @ x).dtype).removeprefix("torch."))
        found.append(str((x @ x).dtype).removeprefix("torch."))
        return found

    assert emulated(job) == [
        *("float16", "float32", "float32", "float32", "float32", "float16"),
        *("float32", "float16", "float32", "float64", "float16", "float32", "float32"),
    ]


def test_casts_of_parameters_are_kept_until_the_block_ends() -> None:
    def job(emulation: Emulation) -> list[int]:
        layer = nn.Linear(256, 256, bias=False).cuda()
        x = torch.randn(1, 256, device="cuda")
        live = emulation.watch.live_bytes
        seen = [live["cuda:0"]]
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            layer(x)
            seen.append(live["cuda:0"])
            layer(x)
            seen.append(live["cuda:0"])
        return [*seen, live["cuda:0"]]

    before, once, twice, after = emulated(job)
    assert once == twice == before + 256 * 256 * 2
    assert after == before


def test_each_device_type_has_its_own() -> None:
    def job(_: Emulation) -> list[str]:
        host, device = torch.randn(4, 4), torch.randn(4, 4, device="cuda")
        found = []
        for kind in ("cpu", "cuda"):
            with torch.autocast(kind, dtype=torch.bfloat16):
                found += [str((x @ x).dtype) for x in (host, device)]
        return found

    low, high = "torch.bfloat16", "torch.float32"
    assert emulated(job) == [low, high, high, low]


def test_autocast_of_the_cpu_is_that_of_the_gpu_that_stands_for_it() -> None:
    def job(_: Emulation) -> list[str]:
        x = torch.randn(4, 4)
        with torch.autocast(device_type="cpu"):
            return [str((x @ x).dtype), str((x @ x).softmax(0).dtype)]

    assert emulated(job, on_gpu=True) == ["torch.bfloat16", "torch.float32"]
