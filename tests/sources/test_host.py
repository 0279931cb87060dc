from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jupyter_vram.sources.host import HostSource
from jupyter_vram.sources.source import ReadRequest

GIB = 1 << 30


def limited(tmp_path: Path, limit: int, used: int) -> HostSource:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    (tmp_path / "membership").write_text("0::/\n")
    return HostSource(tmp_path, tmp_path / "membership")


def unlimited(tmp_path: Path) -> HostSource:
    return HostSource(tmp_path / "none", tmp_path / "none")


def test_the_machine(tmp_path: Path) -> None:
    source = unlimited(tmp_path)
    reading = source.read(ReadRequest())
    (sample,) = reading.devices
    assert (sample.device.id, sample.device.kind, sample.device.name) == (
        "host",
        "host",
        "Host memory",
    )
    assert sample.total_bytes == psutil.virtual_memory().total
    assert sample.free_bytes == pytest.approx(psutil.virtual_memory().available, rel=0.2)
    assert sample.used_bytes is not None
    assert sample.free_bytes is not None
    assert sample.used_bytes + sample.free_bytes == sample.total_bytes
    assert sample.processes == ()
    for field in ("utilization_percent", "temperature_c", "power_w", "driver_reserved_bytes"):
        assert getattr(sample, field) is None
        assert "host memory" in sample.reasons[field]
    assert [(notice.code, notice.severity) for notice in reading.notices] == [
        ("host-memory", "info")
    ]
    assert "memory of the machine" in reading.notices[0].message
    source.close()


def test_a_container_has_its_limit(tmp_path: Path) -> None:
    limit = psutil.virtual_memory().total // 4
    reading = limited(tmp_path, limit, used=limit // 2).read(ReadRequest())
    (sample,) = reading.devices
    assert sample.total_bytes == limit
    assert sample.free_bytes is not None
    assert sample.free_bytes <= limit - limit // 2
    assert sample.used_bytes == limit - sample.free_bytes
    assert "cgroup" in reading.notices[0].message


def test_a_container_can_t_have_more_than_the_machine_has_left(tmp_path: Path) -> None:
    limit = psutil.virtual_memory().total - 1
    (sample,) = limited(tmp_path, limit, used=0).read(ReadRequest()).devices
    assert sample.free_bytes is not None
    assert sample.free_bytes <= psutil.virtual_memory().total
    assert sample.free_bytes < limit


def test_a_limit_above_the_machine_is_none(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    reading = limited(tmp_path, total * 2, used=GIB).read(ReadRequest())
    assert reading.devices[0].total_bytes == total
    assert "memory of the machine" in reading.notices[0].message


def test_kernels_hold_resident_memory(tmp_path: Path) -> None:
    source = unlimited(tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (sample,) = source.read(ReadRequest(kernel_pids=(os.getpid(), gone.pid))).devices
    assert sample.processes is not None
    (process,) = sample.processes
    assert process.pid == os.getpid()
    assert process.used_bytes is not None
    assert process.used_bytes > 10 << 20


def test_processes_are_looked_at_only_when_asked_for(tmp_path: Path) -> None:
    source = unlimited(tmp_path)
    pids = (os.getpid(),)
    (first,) = source.read(ReadRequest(kernel_pids=pids)).devices
    assert first.processes
    (second,) = source.read(ReadRequest(kernel_pids=pids, processes=False)).devices
    assert second.processes == first.processes
    (third,) = source.read(ReadRequest(kernel_pids=())).devices
    assert third.processes == ()
