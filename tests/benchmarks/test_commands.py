"""The commands, as far as they can be tried without measuring."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import dashboard, gpu, record
from benchmarks.command import Command
from benchmarks.server import process_cpu_s
from benchmarks.streaming import OURS, Point, results, side_by_side
from support.fake_nvml import DRIVER_NOT_LOADED, NOT_SUPPORTED, FakeNvml

ROOT = Path(__file__).resolve().parents[2]


COMMANDS = pytest.mark.parametrize("command", [dashboard.COMMAND, record.COMMAND])


@COMMANDS
def test_parts_are_chosen_by_name(command: Command) -> None:
    first, second, *_ = command.parts
    assert command.parse([]).parts == list(command.parts)
    assert command.parse(["--only", f"{second},{first}"]).parts == [second, first]
    with pytest.raises(SystemExit):
        command.parse(["--only", "nonsense"])


@COMMANDS
def test_only_whole_parts_are_kept(command: Command) -> None:
    def path(*options: str) -> Path:
        return command.output_path(command.parse(options), "pc")

    whole = f"{command.name}-pc.json"
    assert path().name == whole
    assert path("--only", next(iter(command.parts))).name == whole
    for option in ("--quick", "--no-peer"):
        assert path(option).name == f"part-{whole}"
    assert path("--output", "x.json") == Path("x.json")


def test_without_a_gpu_the_script_says_so(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    fake_nvml.fail_init(DRIVER_NOT_LOADED)
    done = subprocess.run(
        [sys.executable, "benchmarks/gpu.py", "--output", str(tmp_path / "gpu.json")],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, **fake_nvml.env()},
    )  # fmt: skip
    assert done.returncode == gpu.NO_GPU
    assert "There is no NVIDIA GPU" in done.stderr
    assert not (tmp_path / "gpu.json").exists()


def test_what_the_driver_lacks_is_named(loaded_nvml: FakeNvml) -> None:
    loaded_nvml.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED)
    handle = gpu.first_handle()
    assert handle is not None
    costs = {result.name: result for result in gpu.call_costs(handle, seconds=0)}
    assert set(costs) == set(gpu.CALLS)
    power = costs["nvmlDeviceGetPowerUsage"]
    assert power.value is None
    assert "Not Supported" in power.note
    pcie = costs["nvmlDeviceGetPcieThroughput"].value
    assert pcie is not None
    assert pcie >= 20_000
    (seen,) = gpu.devices()
    assert seen["power_w"] is None
    assert seen["reasons"]["power_w"]


def test_cpu_time_of_a_process_grows() -> None:
    code = "import sys\nfor n in range(10**7): pass\nprint('done', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert process_cpu_s(process.pid) > 0.02
    finally:
        process.communicate()


def point(clients: int, interval_s: float, **fields: float) -> Point:
    values: dict[str, float] = {
        name: 1.0 for name in Point.__dataclass_fields__ if name not in ("subject", "clients")
    }
    values |= {"interval_s": interval_s, "latency_count": 9, "connected": 1, "wanted": 1, **fields}
    return Point(subject=OURS, clients=clients, **values)  # type: ignore[arg-type]


def test_goals_are_judged_at_the_load_they_are_set_for() -> None:
    points = [
        point(clients, interval_s, latency_p99_ms=clients / 5 + interval_s, cpu_percent=clients / 9)
        for clients in (1, 10, 50)
        for interval_s in (1.0, 0.1)
    ]
    verdicts = {result.name: result.verdict for result in results(points)}
    assert verdicts == {
        "API latency p99, 50 clients, 1 s": "missed",
        "API latency p99, 50 clients, 0.1 s": "missed",
        "NVML calls/s, 50 clients ÷ 1 client, 1 s": "met",
        "NVML calls/s, 50 clients ÷ 1 client, 0.1 s": "met",
        "server CPU, 10 clients, 1 s": "missed",
    }
    assert side_by_side(points).count(OURS) == len(points)
