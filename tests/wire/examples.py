"""The values behind ``tests/wire/*.json``, the examples that both ends of the wire are tested with.

``python tests/wire/examples.py`` writes the files anew after the wire format changed.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

from jupyter_vram.model.device import HOST_ID, Device, DeviceSample, ProcessSample
from jupyter_vram.model.kernel_report import CellDevice, CellRun
from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import (
    DeviceView,
    KernelDevice,
    KernelView,
    OwnedProcess,
    Snapshot,
)
from jupyter_vram.model.wire import (
    DEVICE_COLUMNS,
    SCHEMA_VERSION,
    TickBuilder,
    cell_object,
    snapshot_message,
    snapshot_object,
)

FOLDER = Path(__file__).parent
MIB = 1 << 20
NOW = 1_764_547_200.0
GPU_0 = "GPU-6f3c1b52-8f1e-4c9a-9d55-0a4be7d1c201"
GPU_1 = "GPU-a91d7e04-27c6-4f0b-b1f3-5d2c88e6a7f3"
TRAIN = "0b7f4c1e-5d2a-4f65-9c1c-3a1f6f0f8a11"
EXPLORE = "7c2e9a44-91f0-4b0e-8a53-d20c5f3b6e22"
CONSOLE = "e41d08b9-6a7c-4d52-b6de-91b7c04f5a33"

TRAINING_CELLS = (
    CellRun(
        execution_count=1,
        started_at=NOW - 40,
        ended_at=NOW - 34.5,
        code_crc32=zlib.crc32(b"model = build()"),
        rss_start_bytes=310 * MIB,
        rss_end_bytes=2_210 * MIB,
        devices=(
            CellDevice(
                device_id=GPU_0,
                start_bytes=0,
                end_bytes=2_048 * MIB,
                peak_bytes=2_560 * MIB,
                peak_exact=True,
            ),
        ),
    ),
    CellRun(
        execution_count=2,
        started_at=NOW - 12,
        code_crc32=zlib.crc32(b"train(model)"),
        rss_start_bytes=2_210 * MIB,
    ),
)


def _rtx() -> DeviceView:
    return DeviceView(
        sample=DeviceSample(
            device=Device(
                id=GPU_0,
                kind="cuda",
                index=0,
                name="NVIDIA GeForce RTX 4090",
                pci_bus_id="00000000:01:00.0",
            ),
            total_bytes=24_564 * MIB,
            used_bytes=14_000 * MIB,
            free_bytes=10_100 * MIB,
            driver_reserved_bytes=464 * MIB,
            utilization_percent=87.0,
            temperature_c=64.0,
            power_w=311.5,
            power_limit_w=450.0,
            processes=(
                ProcessSample(4711, 11_264 * MIB),
                ProcessSample(4802, 1_536 * MIB),
                ProcessSample(990, 700 * MIB),
            ),
        ),
        processes=(
            OwnedProcess(pid=4711, used_bytes=11_264 * MIB, owner="kernel", kernel_id=TRAIN),
            OwnedProcess(pid=4802, used_bytes=1_536 * MIB, owner="kernel", kernel_id=EXPLORE),
            OwnedProcess(pid=990, used_bytes=700 * MIB, owner="other"),
        ),
        other_bytes=700 * MIB,
        unattributed_bytes=500 * MIB,
    )


def _tesla() -> DeviceView:
    return DeviceView(
        sample=DeviceSample(
            device=Device(
                id=GPU_1,
                kind="cuda",
                index=1,
                name="Tesla K80",
                pci_bus_id="00000000:02:00.0",
            ),
            total_bytes=11_441 * MIB,
            used_bytes=3 * MIB,
            free_bytes=11_438 * MIB,
            temperature_c=31.0,
            processes=(),
            reasons={
                "driver_reserved_bytes": "This driver counts its own memory as used.",
                "utilization_percent": "The driver does not support this on this GPU.",
                "power_w": "The driver does not support this on this GPU.",
            },
        ),
        other_bytes=0,
        unattributed_bytes=3 * MIB,
    )


def _train() -> KernelView:
    return KernelView(
        kernel_id=TRAIN,
        pid=4711,
        name="train.ipynb",
        paths=("work/train.ipynb",),
        state="busy",
        report_time=NOW - 0.25,
        torch_state="cuda_initialized",
        rss_bytes=2_210 * MIB,
        cells=TRAINING_CELLS,
        devices=(
            KernelDevice(
                device_id=GPU_0,
                process_bytes=11_264 * MIB,
                allocated_bytes=8_192 * MIB,
                reserved_bytes=10_752 * MIB,
                peak_allocated_bytes=10_100 * MIB,
                peak_reserved_bytes=10_752 * MIB,
                inactive_split_bytes=384 * MIB,
                parts={
                    "allocated": 8_192 * MIB,
                    "reserved_free": 2_560 * MIB,
                    "context": 512 * MIB,
                },
            ),
        ),
    )


def _explore() -> KernelView:
    return KernelView(
        kernel_id=EXPLORE,
        pid=4802,
        name="explore.ipynb",
        paths=("explore.ipynb", "copies/explore 2.ipynb"),
        state="idle",
        reason=(
            "This kernel does not report its allocator, so its memory stands undivided:"
            " run `pip install jupyter-vram` in the kernel's environment and restart it."
        ),
        devices=(
            KernelDevice(
                device_id=GPU_0,
                process_bytes=1_536 * MIB,
                parts={"process": 1_536 * MIB},
            ),
        ),
    )


def snapshot() -> Snapshot:
    """Two GPUs: one that tells everything, an old one that does not; two notebooks."""
    return Snapshot(
        time=NOW,
        interval_s=1.0,
        devices=(_rtx(), _tesla()),
        kernels=(_train(), _explore()),
        notices=(
            Notice("gpu-lost", "warning", "GPU 2 has fallen off the bus: restart the machine."),
        ),
    )


def later(figures_only: bool) -> Snapshot:
    """`snapshot` one second on: the same with other figures, or with a cell ended and a console."""
    before = snapshot()
    gpu = before.devices[0]
    moved = dataclasses.replace(
        gpu,
        sample=dataclasses.replace(
            gpu.sample,
            used_bytes=14_512 * MIB,
            free_bytes=9_588 * MIB,
            utilization_percent=93.0,
            power_w=340.25,
        ),
        unattributed_bytes=0,
    )
    train = before.kernels[0]
    grown = dataclasses.replace(
        train,
        report_time=NOW + 0.9,
        devices=(
            dataclasses.replace(
                train.devices[0],
                process_bytes=12_276 * MIB,
                allocated_bytes=9_204 * MIB,
                reserved_bytes=11_764 * MIB,
                parts={
                    "allocated": 9_204 * MIB,
                    "reserved_free": 2_560 * MIB,
                    "context": 512 * MIB,
                },
            ),
        ),
    )
    kernels: tuple[KernelView, ...] = (grown, before.kernels[1])
    if not figures_only:
        ended = dataclasses.replace(
            TRAINING_CELLS[1],
            ended_at=NOW + 0.8,
            rss_end_bytes=2_205 * MIB,
            devices=(
                CellDevice(
                    device_id=GPU_0,
                    start_bytes=2_048 * MIB,
                    end_bytes=8_192 * MIB,
                    peak_bytes=10_000 * MIB,
                    peak_exact=False,
                ),
            ),
        )
        grown = dataclasses.replace(grown, state="idle", cells=(TRAINING_CELLS[0], ended))
        console = KernelView(
            kernel_id=CONSOLE,
            pid=5120,
            name="console 1",
            paths=("console-1-e41d08b9",),
            state="idle",
            report_time=NOW + 0.7,
            reason=("torch is not imported in this kernel, so there is no allocator to report."),
            torch_state="not_imported",
            rss_bytes=71 * MIB,
        )
        kernels = (grown, before.kernels[1], console)
    return dataclasses.replace(
        before, time=NOW + 1.0, devices=(moved, before.devices[1]), kernels=kernels
    )


def snapshot_host() -> Snapshot:
    """No NVIDIA GPU: the host's memory, with the kernels' resident memory."""
    return Snapshot(
        time=NOW,
        interval_s=1.0,
        devices=(
            DeviceView(
                sample=DeviceSample(
                    device=Device(id=HOST_ID, kind="host", index=None, name="Host memory"),
                    total_bytes=32_000 * MIB,
                    used_bytes=9_000 * MIB,
                    free_bytes=23_000 * MIB,
                    processes=(
                        ProcessSample(4711, 2_210 * MIB),
                        ProcessSample(5120, 71 * MIB),
                    ),
                    reasons={
                        "driver_reserved_bytes": "No driver sets any host memory aside.",
                        "utilization_percent": "Host memory has no such sensor.",
                        "temperature_c": "Host memory has no such sensor.",
                        "power_w": "Host memory has no such sensor.",
                        "power_limit_w": "Host memory has no such sensor.",
                    },
                ),
                processes=(
                    OwnedProcess(pid=4711, used_bytes=2_210 * MIB, owner="kernel", kernel_id=TRAIN),
                    OwnedProcess(pid=5120, used_bytes=71 * MIB, owner="kernel", kernel_id=CONSOLE),
                ),
                other_bytes=6_719 * MIB,
                unattributed_bytes=0,
            ),
        ),
        kernels=(
            KernelView(
                kernel_id=TRAIN,
                pid=4711,
                name="train.ipynb",
                paths=("work/train.ipynb",),
                state="busy",
                report_time=NOW - 0.25,
                reason=(
                    "This kernel's torch is a build without CUDA, so it holds no GPU memory:"
                    " to use an NVIDIA GPU, install a CUDA build of torch."
                ),
                torch_state="no_cuda_build",
                rss_bytes=2_210 * MIB,
                cells=TRAINING_CELLS,
                devices=(
                    KernelDevice(
                        device_id=HOST_ID,
                        process_bytes=2_210 * MIB,
                        parts={"resident": 2_210 * MIB},
                    ),
                ),
            ),
            KernelView(
                kernel_id=CONSOLE,
                pid=5120,
                name="console 1",
                paths=("console-1-e41d08b9",),
                state="idle",
                report_time=NOW - 0.4,
                reason=(
                    "torch is not imported in this kernel, so there is no allocator to report."
                ),
                torch_state="not_imported",
                rss_bytes=71 * MIB,
                devices=(
                    KernelDevice(
                        device_id=HOST_ID,
                        process_bytes=71 * MIB,
                        parts={"resident": 71 * MIB},
                    ),
                ),
            ),
        ),
        notices=(
            Notice(
                "host-memory",
                "info",
                "No NVIDIA GPU can be used here, so this is the memory of the machine.",
            ),
        ),
    )


def history() -> dict[str, Any]:
    """What ``GET history`` answers for the first GPU: three rows, the kernel came at the second."""
    rows = {
        "used_bytes": [2_700 * MIB, 13_600 * MIB, 14_000 * MIB],
        "free_bytes": [21_400 * MIB, 10_500 * MIB, 10_100 * MIB],
        "driver_reserved_bytes": [464 * MIB, 464 * MIB, 464 * MIB],
        "other_bytes": [700 * MIB, 700 * MIB, 700 * MIB],
        "unattributed_bytes": [464 * MIB, 100 * MIB, 500 * MIB],
        "utilization_percent": [0.0, 71.0, 87.0],
        "temperature_c": [41.0, None, 64.0],
        "power_w": [35.0, 290.0, 311.5],
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "device": GPU_0,
        "resolution_s": 1.0,
        "time": [NOW - 2, NOW - 1, NOW],
        "columns": {name: rows[name] for name in DEVICE_COLUMNS},
        "kernels": {
            TRAIN: {
                "name": "train.ipynb",
                "paths": ["work/train.ipynb"],
                "ended": False,
                "parts": {
                    "allocated": [None, 8_192 * MIB, 8_192 * MIB],
                    "reserved_free": [None, 2_560 * MIB, 2_560 * MIB],
                    "context": [None, 512 * MIB, 512 * MIB],
                },
                "cells": [cell_object(cell) for cell in TRAINING_CELLS],
            },
            EXPLORE: {
                "name": "explore.ipynb",
                "paths": ["explore.ipynb", "copies/explore 2.ipynb"],
                "ended": False,
                "parts": {"process": [1_536 * MIB, 1_536 * MIB, 1_536 * MIB]},
                "cells": [],
            },
        },
    }


def messages() -> dict[str, Any]:
    """File name → what the file holds, built by the code under test."""
    builder = TickBuilder()
    first = builder.build(snapshot())
    figures = builder.build(later(figures_only=True))
    changed = TickBuilder()
    seen = changed.build(snapshot()).revisions
    return {
        "snapshot.json": snapshot_object(snapshot()),
        "snapshot_host.json": snapshot_object(snapshot_host()),
        "history.json": history(),
        "stream_snapshot.json": snapshot_message(first.snapshot, {GPU_0: history()}),
        "tick.json": figures.message(first.revisions),
        "tick_changed.json": changed.build(later(figures_only=False)).message(seen),
    }


if __name__ == "__main__":
    for name, message in messages().items():
        text = json.dumps(message, indent=2, ensure_ascii=False, sort_keys=False)
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")
