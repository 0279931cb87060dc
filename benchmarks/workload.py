"""A busy machine, made up: 8 GPUs and 10 notebooks, each of which trains on one or two of them."""

from __future__ import annotations

import functools
import math
import uuid
from dataclasses import dataclass

from jupyter_vram.model.device import Device, DeviceSample, ProcessSample
from jupyter_vram.model.kernel_report import AllocatorStats, CellRun, KernelReport
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import Measurement, ReportReading

MIB = 1 << 20
GPUS = 8
KERNELS = 10
TOTAL_BYTES = 80 * 1024 * MIB
DRIVER_BYTES = 512 * MIB
CONTEXT_BYTES = 480 * MIB
OTHER_PID = 900
ALL_DAY_S = 10**9
CELL_S = 45

DEVICES = tuple(
    Device(
        id=f"GPU-{uuid.UUID(int=0x6F3C1B528F1E4C9A9D550A4BE7D1C200 + index)}",
        kind="cuda",
        index=index,
        name="NVIDIA H100 80GB HBM3",
        pci_bus_id=f"00000000:{index + 1:02X}:00.0",
    )
    for index in range(GPUS)
)


@dataclass(frozen=True)
class Moment:
    """What a turn of the poller reads, and the kernels that there are."""

    measurement: Measurement
    sessions: tuple[KernelSession, ...]


def moment(
    second: int, start: float, restart_s: int = ALL_DAY_S, interval_s: float = 1.0
) -> Moment:
    """The machine `second` seconds after `start`. Every byte moves, as in training.

    After each `restart_s` seconds a notebook's kernel is shut down, and a new one takes its place.
    """
    now = start + second
    samples: list[DeviceSample] = []
    held: dict[int, list[ProcessSample]] = {index: [] for index in range(GPUS)}
    sessions, reports, ancestors = [], {}, {}
    for number in range(KERNELS):
        session, report = _kernel(number, second, now, restart_s)
        sessions.append(session)
        reports[session.kernel_id] = ReportReading(report=report)
        ancestors[report.pid] = (1,)
        for stats in report.devices:
            process = ProcessSample(report.pid, stats.reserved_bytes + CONTEXT_BYTES)
            held[stats.ordinal].append(process)
    ancestors[OTHER_PID] = (1,)
    for index, device in enumerate(DEVICES):
        processes = (*held[index], ProcessSample(OTHER_PID, 700 * MIB))
        used = sum(process.used_bytes or 0 for process in processes) + 3 * MIB
        samples.append(
            DeviceSample(
                device=device,
                total_bytes=TOTAL_BYTES,
                used_bytes=used,
                free_bytes=TOTAL_BYTES - DRIVER_BYTES - used,
                driver_reserved_bytes=DRIVER_BYTES,
                utilization_percent=float((second * 7 + 13 * index) % 101),
                temperature_c=float(50 + (second // 20 + index) % 25),
                power_w=300 + (second * 37 + index * 11) % 4000 / 10,
                power_limit_w=700.0,
                processes=processes,
            )
        )
    measurement = Measurement(
        time=now,
        interval_s=interval_s,
        devices=tuple(samples),
        reports=reports,
        ancestors=ancestors,
    )
    return Moment(measurement, tuple(sessions))


def _kernel(
    number: int, second: int, now: float, restart_s: int
) -> tuple[KernelSession, KernelReport]:
    # They do not all restart at once.
    life = (second + number * restart_s // KERNELS) // restart_s
    pid = 4000 + 100 * number + life
    kernel_id = str(uuid.UUID(int=(0xA5 << 120) + (number << 64) + life))
    devices = [number % GPUS] if number % 2 else [number % GPUS, (number + 1) % GPUS]
    cell = second // CELL_S
    report = KernelReport(
        pid=pid,
        written_at=now - 0.05 - 0.04 * number,
        period_s=0.5,
        package_version="0.1.0",
        rss_bytes=(2200 + number) * MIB + 4096 * (second % 500),
        torch_state="cuda_initialized",
        torch_version="2.13.0",
        devices=tuple(_stats(number, device, second) for device in devices),
        cells=_runs(cell, now - second % CELL_S),
    )
    name = f"experiment {number + 1}.ipynb"
    session = KernelSession(
        kernel_id=kernel_id,
        pid=pid,
        name=name,
        paths=(f"work/project/{name}",),
        state="busy",
        language="python",
    )
    return session, report


@functools.lru_cache(maxsize=4)
def _runs(cell: int, began: float) -> tuple[CellRun, ...]:
    """The run number `cell`, which goes on, and those before it."""
    return tuple(
        CellRun(
            execution_count=k + 1,
            started_at=began - (cell - k) * CELL_S,
            ended_at=None if k == cell else began - (cell - k - 1) * CELL_S - 2,
        )
        for k in range(max(0, cell - 19), cell + 1)
    )


def _stats(number: int, index: int, second: int) -> AllocatorStats:
    wave = (1 + math.sin(second / 7 + number + index)) / 2
    allocated = 2048 * MIB + int(6000 * wave) * MIB + 512 * ((second * 131 + number) % 2000)
    reserved = 9216 * MIB + 2 * MIB * (second // 60 % 500)
    return AllocatorStats(
        device_id=DEVICES[index].id,
        ordinal=index,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        active_bytes=allocated,
        requested_bytes=allocated - 3 * MIB,
        inactive_split_bytes=64 * MIB + 512 * (second % 1000),
        peak_allocated_bytes=8048 * MIB + 512 * 1999,
        peak_reserved_bytes=reserved,
        alloc_retries=0,
        ooms=0,
    )
