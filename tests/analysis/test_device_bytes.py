"""From tensors to a device: parts that add up, and verdicts."""

from __future__ import annotations

import pytest

from jupyter_vram.analysis.device_bytes import Need, fit, usable_bytes
from jupyter_vram.model.gpus import Gpu, gpu_named
from jupyter_vram.model.overheads import Overhead
from support.traces import Made, trace_of

MIB = 1 << 20
GPU = Gpu("GPU", 1000 * MIB, 20 * MIB, (8, 6), 46)


def need_of(*sizes: int, op: str = "aten::linear", **how: Overhead) -> Need:
    blocks = [
        Made(size=size, comes=2 * at, goes=2 * at + 1 if at % 2 else None, op=op)
        for at, size in enumerate(sizes)
    ]
    return Need(trace_of(blocks, device="cuda:0"), **how)


@pytest.mark.parametrize("sizes", [(1,), (100, 3 * MIB, 30 * MIB, 700), (5 * MIB,) * 6])
def test_parts_add_up_to_what_is_reserved_and_the_context(sizes: tuple[int, ...]) -> None:
    need = need_of(*sizes)
    device = need.on(GPU)
    parts = {part.name: part.bytes for part in device.parts}
    assert sum(parts.values()) == device.bytes
    assert parts["tensors"] == need.tensor_bytes
    reserved = need.simulation(GPU).peak_reserved_bytes
    assert device.bytes - parts["CUDA context"] == reserved
    assert all(part.low_bytes <= part.bytes <= part.high_bytes for part in device.parts)
    assert all(part.bytes >= 0 and part.source.endswith(".") for part in device.parts)


def test_workspaces_are_those_of_the_gpu_and_of_what_runs() -> None:
    def workspaces(need: Need, gpu: str) -> tuple[int, int]:
        (part,) = [part for part in need.on(gpu_named(gpu)).parts if "workspaces" in part.name]
        return part.bytes, part.high_bytes

    assert workspaces(need_of(MIB), "RTX 4090") == (8_519_680, 8_519_680)
    assert workspaces(need_of(MIB), "H100 80GB") == (32 * MIB, 32 * MIB)
    assert workspaces(need_of(MIB, op="aten::relu"), "RTX 4090") == (0, 0)
    assert workspaces(need_of(MIB, op="aten::conv2d"), "RTX 4090") == (0, 512 * MIB)


def test_on_the_cpu_there_are_tensors_only() -> None:
    device = Need(trace_of([Made(size=1000, comes=0)])).on(GPU)
    assert [(part.name, part.bytes) for part in device.parts] == [("tensors", 1000)]


def test_verdicts() -> None:
    context = Overhead(100 * MIB, 50 * MIB, 200 * MIB, "measured on this machine")
    assert usable_bytes(GPU) == 980 * MIB
    assert usable_bytes(Gpu("GPU", 1000 * MIB, None, (8, 6), 46)) == 975 * MIB
    verdicts = [
        fit(need_of(size * MIB, op="aten::relu", measured_context=context), GPU).verdict
        for size in (400, 800, 960)
    ]
    assert verdicts == ["fits", "tight", "does not fit"]
