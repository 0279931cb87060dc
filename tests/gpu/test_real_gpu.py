"""What the stand-ins claim, held against a real driver and a real CUDA build of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_vram.sources.torch_allocator import FORKED
from support.worker import Worker

MIB = 1 << 20

# The kernel's side: what its reporter would write.
REPORT = """
import dataclasses
from jupyter_vram.kernel.reporter import read_report
answer = dataclasses.asdict(read_report(period_s=0.5))
"""
# The server's side, one reading.
DEVICES = """
import dataclasses
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.source import ReadRequest
source = globals().get("source") or NvmlSource()
reading = source.read(ReadRequest(watched=True))
answer = {sample.device.id: dataclasses.asdict(sample) for sample in reading.devices}
"""
USE_GPU = """
import torch
held = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
"""


def charged(devices: dict[str, Any], pid: int) -> dict[str, int | None]:
    """Device id → what the driver charges a process."""
    return {
        device_id: process["used_bytes"]
        for device_id, sample in devices.items()
        for process in sample["processes"] or ()
        if process["pid"] == pid
    }


@pytest.fixture
def kernel(new_worker: Callable[..., Worker]) -> Worker:
    return new_worker()


@pytest.fixture
def server(new_worker: Callable[..., Worker]) -> Worker:
    return new_worker()


def test_reading_creates_no_context(kernel: Worker, server: Worker) -> None:
    assert kernel.run(REPORT)["torch_state"] == "not_imported"
    kernel.run("import torch")
    report = kernel.run(REPORT)
    assert (report["torch_state"], report["devices"]) == ("cuda_not_initialized", [])
    assert kernel.run("answer = torch.cuda.is_initialized()") is False
    assert charged(server.run(DEVICES), kernel.pid) == {}


def test_the_report_is_what_torch_tells(kernel: Worker) -> None:
    kernel.run(USE_GPU)
    kernel.run("more = torch.ones(1000, device='cuda'); del more")
    report = kernel.run(REPORT)
    (device,) = report["devices"]
    stats = kernel.run("answer = torch.cuda.memory_stats()")
    assert report["torch_state"] == "cuda_initialized"
    assert report["problem"] is None
    for field, key in {
        "allocated_bytes": "allocated_bytes.all.current",
        "reserved_bytes": "reserved_bytes.all.current",
        "active_bytes": "active_bytes.all.current",
        "requested_bytes": "requested_bytes.all.current",
        "inactive_split_bytes": "inactive_split_bytes.all.current",
        "peak_allocated_bytes": "allocated_bytes.all.peak",
        "peak_reserved_bytes": "reserved_bytes.all.peak",
        "alloc_retries": "num_alloc_retries",
        "ooms": "num_ooms",
    }.items():
        assert device[field] == stats[key], field
    assert device["allocated_bytes"] >= 64 * MIB


def test_kernel_and_driver_name_the_device_alike(kernel: Worker, server: Worker) -> None:
    kernel.run(USE_GPU)
    (device,) = kernel.run(REPORT)["devices"]
    assert device["device_id"] in server.run(DEVICES)


def test_the_driver_charges_what_is_reserved_and_a_context(kernel: Worker, server: Worker) -> None:
    kernel.run(USE_GPU)
    (device,) = kernel.run(REPORT)["devices"]
    by_device = charged(server.run(DEVICES), kernel.pid)
    if by_device.get(device["device_id"]) is None:
        pytest.skip("this driver tells no memory of a process (a container's pids, WSL, MIG)")
    assert set(by_device) == {device["device_id"]}
    process_bytes = by_device[device["device_id"]]
    assert process_bytes is not None
    assert process_bytes - device["reserved_bytes"] > 10 * MIB


def test_memory_that_is_freed_goes_back_to_the_device(kernel: Worker, server: Worker) -> None:
    kernel.run(USE_GPU)
    (device,) = kernel.run(REPORT)["devices"]
    kernel.run("del held")
    (freed,) = kernel.run(REPORT)["devices"]
    assert device["allocated_bytes"] - freed["allocated_bytes"] == 64 * MIB
    assert freed["reserved_bytes"] == device["reserved_bytes"]
    kernel.run("torch.cuda.empty_cache()")
    (emptied,) = kernel.run(REPORT)["devices"]
    assert emptied["reserved_bytes"] < freed["reserved_bytes"]
    assert emptied["peak_reserved_bytes"] == freed["peak_reserved_bytes"]


def test_an_ordinal_is_not_an_index(new_worker: Callable[..., Worker], server: Worker) -> None:
    """With one GPU chosen by its UUID, whichever it is, torch calls it 0."""
    for device_id in server.run(DEVICES):
        kernel = new_worker(CUDA_VISIBLE_DEVICES=device_id)
        if not kernel.run("import torch; answer = torch.cuda.is_available()"):
            continue  # a parent of MIG slices: it can't be used whole
        kernel.run(USE_GPU)
        (device,) = kernel.run(REPORT)["devices"]
        assert (device["device_id"], device["ordinal"]) == (device_id, 0)


def test_the_parts_of_a_device_add_up(server: Worker) -> None:
    for sample in server.run(DEVICES).values():
        parts = [sample[part] for part in ("used_bytes", "free_bytes", "driver_reserved_bytes")]
        if None in parts:
            assert sample["reasons"]
        else:
            # Each is read in one call, and rounded to pages by the driver.
            assert sum(parts) == pytest.approx(sample["total_bytes"], abs=MIB)


def test_a_fork_of_a_process_that_uses_cuda_says_so(kernel: Worker) -> None:
    kernel.run(USE_GPU)
    told = kernel.run(
        "import os\n"
        "from jupyter_vram.sources.torch_allocator import read\n"
        "read_end, write_end = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.write(write_end, str(read().problem).encode())\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "answer = os.read(read_end, 1000).decode()\n"
    )
    assert told == FORKED
