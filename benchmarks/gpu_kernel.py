"""A real kernel that uses a real GPU: what we say of it, beside torch and the driver."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.kernel import cell_cost, cell_times, slow_down, slower
from benchmarks.results import Result, percentile
from jupyter_vram.analysis.ownership import assemble
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import Measurement, ReportReading, Snapshot
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.processes import ancestors
from jupyter_vram.sources.report_file import ReportReader
from jupyter_vram.sources.source import Reading, ReadRequest
from support.kernels import Kernel, Kernels, until

MIB = 1 << 20
HELD_BYTES = 512 * MIB
FREED_BYTES = 256 * MIB
KERNEL_ID = "benchmark"
ALLOCATE = f"""
held = torch.empty({HELD_BYTES}, dtype=torch.uint8, device="cuda")
more = torch.empty({FREED_BYTES}, dtype=torch.uint8, device="cuda")
del more
torch.cuda.synchronize()
"""
TOLD = """{
    "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
    "free": torch.cuda.mem_get_info()[0], "total": torch.cuda.mem_get_info()[1]}"""
STEPS = """
import time
kept, stamps = [], []
for step in range({count}):
    stamps.append((time.time(), torch.cuda.memory_allocated() + 4 * 2**20))
    kept.append(torch.empty(4 * 2**20, dtype=torch.uint8, device="cuda"))
    end = time.perf_counter() + 0.8
    while time.perf_counter() < end:
        sum(range(1000))
del kept
"""
TRAINING = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
optimizer = torch.optim.AdamW(net.parameters())
inputs = torch.randn(256, 1024, device="cuda")
def work():
    for _ in range(COUNT):
        loss = net(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
"""


def measure(
    folder: Path, *, env: Mapping[str, str], quick: bool
) -> tuple[list[Result], dict[str, Any]]:
    """The results, and what was read.

    Raises:
        RuntimeError: this torch has no CUDA.
    """
    (folder / "runtime").mkdir(parents=True)
    own = {**env, "JUPYTER_VRAM_KERNEL": "0", "IPYTHONDIR": str(folder / "ipython")}
    kernels = Kernels(folder, own)
    source = NvmlSource()
    try:
        before = source.read(ReadRequest())
        kernel = kernels.start()
        kernel.run("%load_ext jupyter_vram")
        kernel.run("import torch")
        found, untouched = no_context(kernel, source, before)
        if not kernel.value("torch.version.cuda is not None"):
            raise RuntimeError("torch is a build without CUDA: install one with CUDA")
        parts, told = told_apart(kernel, source)
        latency, seen = report_latency(kernel, 5 if quick else 20)
        wall, thread, _share = slow_down(kernel, TRAINING, 4 if quick else 20)
        cells = cell_times(
            folder / "cells", 200 if quick else 2000, f"COUNT = 1\n{TRAINING}work()", **env
        )
    finally:
        source.close()
        kernels.stop()
    results = [
        *(*found, *parts, *latency),
        slower("a training loop on the GPU slower while the reporter runs, by the clock", wall),
        slower("the same, by its own thread's CPU time", thread),
        cell_cost("begin and end of a cell, on a GPU", cells),
    ]
    raw = {"before_cuda": untouched, "parts": told, "latency_s": seen, "cell_s": cells}
    return results, raw


def no_context(
    kernel: Kernel, source: NvmlSource, before: Reading
) -> tuple[list[Result], dict[str, Any]]:
    """The driver must not hear of a kernel that reports, but has not used CUDA."""
    first = kernel.first_report()
    kernel.until(lambda report: report.written_at > first.written_at + 1)
    after = source.read(ReadRequest())
    listed = [
        sum(len(sample.processes or ()) for sample in reading.devices)
        for reading in (before, after)
    ]
    result = Result(
        part="kernel",
        name="processes the driver lists more, once the reporter runs and torch is imported",
        value=float(listed[1] - listed[0]),
        unit="",
        goal=0,
        note="no CUDA context is made; another user's new process would count here, too",
    )
    return [result], {"listed": listed, "state": kernel.first_report().torch_state}


def told_apart(kernel: Kernel, source: NvmlSource) -> tuple[list[Result], dict[str, Any]]:
    """The parts of a device on which that kernel holds memory, beside torch's and the driver's."""
    kernel.run(ALLOCATE)
    told = kernel.value(TOLD)
    report = kernel.until(
        lambda report: any(d.allocated_bytes == told["allocated"] for d in report.devices)
    )
    snapshot = _snapshot(kernel, source)
    device_id = report.devices[0].device_id
    view = next(view for view in snapshot.devices if view.device.id == device_id)
    share = next(s for s in snapshot.kernels[0].devices if s.device_id == device_id)
    sample = view.sample
    # What holds no memory, or has no figure, adds nothing.
    addends = (
        *share.parts.values(),
        *(view.other_bytes, view.unattributed_bytes),
        *(sample.driver_reserved_bytes, sample.free_bytes),
    )
    differences = {
        "allocated, ours less torch's": (share.allocated_bytes or 0) - told["allocated"],
        "reserved, ours less torch's": (share.reserved_bytes or 0) - told["reserved"],
        "sum of all parts less the device's total": sum(a or 0 for a in addends)
        - (sample.total_bytes or 0),
    }
    results = [
        Result(part="parts", name=name, value=float(abs(value)), unit="B", goal=0)
        for name, value in differences.items()
    ]
    context = share.parts.get("context")
    results += [
        Result(
            part="parts",
            name="context and libraries",
            value=None if context is None else context / MIB,
            unit="MiB",
            note="" if context is not None else "the driver gives no figure for this process",
        ),
        Result(
            part="parts",
            name="free, ours less mem_get_info's",
            value=((sample.free_bytes or 0) - told["free"]) / MIB,
            unit="MiB",
        ),
    ]
    seen = {
        "torch": told,
        "parts": dict(share.parts),
        "process_bytes": share.process_bytes,
        "other_bytes": view.other_bytes,
        "unattributed_bytes": view.unattributed_bytes,
        "driver_reserved_bytes": sample.driver_reserved_bytes,
        "used_bytes": sample.used_bytes,
        "free_bytes": sample.free_bytes,
        "total_bytes": sample.total_bytes,
    }
    return results, seen


def _snapshot(kernel: Kernel, source: NvmlSource) -> Snapshot:
    """As the server would put it together now."""
    report = kernel.first_report()
    devices = source.read(ReadRequest()).devices
    pids = {process.pid for sample in devices for process in sample.processes or ()}
    session = KernelSession(
        kernel_id=KERNEL_ID, pid=kernel.pid, name="benchmark.ipynb", language="python"
    )
    measurement = Measurement(
        time=time.time(),
        interval_s=1.0,
        devices=devices,
        reports={KERNEL_ID: ReportReading(report=report)},
        ancestors=ancestors(pids | {report.pid}),
    )
    return assemble(measurement, (session,))


def report_latency(kernel: Kernel, count: int) -> tuple[list[Result], list[float]]:
    """Seconds from an allocation in a busy cell until its report can be read."""
    reader = ReportReader()
    seen: dict[int, float] = {}
    request = kernel.send(STEPS.format(count=count))
    end = time.monotonic() + count * 0.8 + 3
    while time.monotonic() < end:
        reading = reader.read(str(kernel.path))
        if reading is not None and reading.report is not None:
            for device in reading.report.devices:
                seen.setdefault(device.allocated_bytes, time.time())
        time.sleep(0.002)
    kernel.wait(request)
    stamps = json.loads(json.dumps(kernel.value("stamps")))
    taken = [seen[size] - began for began, size in stamps if size in seen]
    until(lambda: taken, "a report of the allocations")
    result = Result(
        part="kernel",
        name="report latency beside a busy main thread (a report is due every 0.5 s)",
        value=1e3 * median(taken),
        unit="ms",
        low=1e3 * min(taken),
        high=1e3 * percentile(taken, 99),
        note=f"median, least, 99th percentile of {len(taken)} of {len(stamps)} allocations",
    )
    return [result], taken
