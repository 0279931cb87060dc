"""What only real CUDA can tell: no context is made, and the sums agree with the driver's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_vram.model.device import DeviceSample
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.source import ReadRequest

MIB = 1 << 20
CONTEXT_BYTES = (64 * MIB, 4096 * MIB)
"""A CUDA context with torch's libraries holds something between these."""
TESTS = Path(__file__).resolve().parents[1]

PRELUDE = """
import json, logging, os, sys
from pathlib import Path
import torch
from jupyter_vram.kernel.reporter import Reporter, read_report
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.report_file import ReportReader
from jupyter_vram.sources.source import ReadRequest
from support.kernels import until

source = NvmlSource()
path = Path(sys.argv[1]) / "jupyter-vram" / "kernel-1.json"

def device(id):
    return next(d for d in source.read(ReadRequest()).devices if d.device.id == id)

def listed():
    # In a container the driver may list the host's pids: then none is ours.
    return [p.pid for d in source.read(ReadRequest()).devices for p in d.processes or ()]
"""


def in_new_process(code: str, folder: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, str(folder)],
        env=env, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr


def gpus() -> tuple[DeviceSample, ...]:
    source = NvmlSource()
    try:
        return source.read(ReadRequest()).devices
    finally:
        source.close()


def test_reporting_makes_no_context(tmp_path: Path) -> None:
    in_new_process(
        """
before = listed()
reporter = Reporter(path, logging.getLogger())
reporter.start()
first = until(lambda: ReportReader().read(path)).report
reporter.wake()
until(lambda: ReportReader().read(path).report.written_at > first.written_at)
assert first.torch_state == "cuda_not_initialized", first
assert not torch.cuda.is_initialized()
assert os.getpid() not in listed()
assert len(listed()) <= len(before), (before, listed())
reporter.stop()
""",
        tmp_path,
    )


def test_figures_are_torchs_own_and_the_driver_agrees(tmp_path: Path) -> None:
    in_new_process(
        f"""
torch.cuda.init()
first = read_report(1.0).devices[0]
before = device(first.device_id).used_bytes
held = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
more = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
del more
report = read_report(1.0)
assert report.problem is None and report.torch_state == "cuda_initialized", report
(mine,) = [d for d in report.devices if d.ordinal == torch.cuda.current_device()]
assert mine.allocated_bytes == torch.cuda.memory_allocated()
assert mine.reserved_bytes == torch.cuda.memory_reserved()
assert mine.peak_allocated_bytes == torch.cuda.max_memory_allocated()
assert mine.peak_reserved_bytes == torch.cuda.max_memory_reserved()
stats = torch.cuda.memory_stats()
assert mine.active_bytes == stats["active_bytes.all.current"]
assert mine.requested_bytes == stats["requested_bytes.all.current"]
assert mine.inactive_split_bytes == stats["inactive_split_bytes.all.current"]
assert (mine.alloc_retries, mine.ooms) == (stats["num_alloc_retries"], stats["num_ooms"])

sample = device(mine.device_id)
entry = [p for p in sample.processes or () if p.pid == os.getpid()]
least, most = {CONTEXT_BYTES}
if entry and entry[0].used_bytes is not None:
    context = entry[0].used_bytes - mine.reserved_bytes
    assert least <= context <= most, (context, sample)
else:
    # The pids are of another namespace: what the device gained is ours, context or not.
    gained = sample.used_bytes - before
    assert mine.reserved_bytes <= gained + least <= mine.reserved_bytes + most, (gained, sample)
""",
        tmp_path,
    )


def test_a_device_is_joined_by_its_uuid(tmp_path: Path) -> None:
    known = {sample.device.id for sample in gpus()}
    (tmp_path / "known").write_text("\n".join(known))
    in_new_process(
        """
torch.cuda.init()
known = (Path(sys.argv[1]) / "known").read_text().split()
held = [torch.ones(1, device=f"cuda:{i}") for i in range(torch.cuda.device_count())]
devices = read_report(1.0).devices
assert [d.ordinal for d in devices] == list(range(len(held)))
assert {d.device_id for d in devices} <= set(known), (devices, known)
for d in devices:
    name = device(d.device_id).device.name
    assert torch.cuda.get_device_name(d.ordinal) == name, (d, name)
""",
        tmp_path,
    )


def test_an_out_of_memory_is_counted(tmp_path: Path) -> None:
    in_new_process(
        """
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
assert read_report(1.0).devices[0].ooms == 1
""",
        tmp_path,
    )


@pytest.mark.parametrize("visible", ["by index", "by uuid"])
def test_hiding_devices_does_not_mislead(
    visible: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = max(
        (sample.device for sample in gpus() if sample.device.parent_id is None),
        key=lambda device: device.index or 0,
    )
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.setenv(
        "CUDA_VISIBLE_DEVICES", str(last.index) if visible == "by index" else last.id
    )
    (tmp_path / "expected").write_text(last.id)
    in_new_process(
        """
torch.ones(1, device="cuda")
expected = (Path(sys.argv[1]) / "expected").read_text()
assert [d.device_id for d in read_report(1.0).devices] == [expected]
""",
        tmp_path,
    )
