"""NVML through the unmodified pynvml, over the stand-in: what it answers, and what it can't.

What is known to go wrong with NVML (from its users' reports), and where each is tested:

 1 lazy; four ways to fail at initialisation; retried   test_nvml_faults.py
 2 a foreign pynvml; names that don't decode            test_nvml_faults.py; here
 3 each metric apart, each GPU apart                    test_nvml_faults.py
 4 memory version 2, then 1                             here
 5 unified memory                                       here
 6 MIG                                                  here
 7 pids: once each, without figures, in the way         here; whose they are: analysis/ownership
 8 an index is no CUDA ordinal                          here: keyed by UUID, indices are NVML's
 9 cost, tiers                                          here (calls counted); the poller's tests
10 sleeping GPUs                                        test_nvml_sleep.py, test_pci.py
14 logged once; a reason for whatever is missing        test_nvml_faults.py
17 a function that is absent                            test_nvml_faults.py
18 how pynvml finds the library                         test_nvml_faults.py (a process of its own)

11-13, 15 and 16 (torch, channels, sockets, cgroups, other users) are not NVML's: see test_host.py,
test_cgroup.py and the tests of the kernel and the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import psutil
import pytest

from jupyter_vram.model.device import DeviceSample, ProcessSample
from jupyter_vram.sources.host import machine_memory
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.nvml_device import FIELDS
from jupyter_vram.sources.source import ReadRequest
from support.fake_nvml import (
    FUNCTION_NOT_FOUND,
    GIB,
    MIB,
    NO_PERMISSION,
    NOT_SUPPORTED,
    FakeNvml,
    FakeProcess,
)

WATCHED = ReadRequest(watched=True)
WITHOUT_PROCESSES = ReadRequest(watched=True, processes=False)

NewSource = Callable[..., NvmlSource]


class Clock(Protocol):
    now: float


def only(source: NvmlSource, request: ReadRequest = WATCHED) -> DeviceSample:
    (sample,) = source.read(request).devices
    return sample


def codes(source: NvmlSource, request: ReadRequest = WATCHED) -> set[str]:
    return {notice.code for notice in source.read(request).notices}


def fail_memory(fake: FakeNvml, code: int, device: int | None = None) -> None:
    for function in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        fake.fail(function, code, device)


def test_a_healthy_gpu_is_told_whole(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    gpu = loaded_nvml.device(0)
    gpu.used_bytes, gpu.reserved_bytes = 3 * GIB, 500 * MIB
    gpu.utilization_percent, gpu.temperature_c = 87, 61
    gpu.power_mw, gpu.power_limit_mw = 123_400, 450_000
    loaded_nvml.set_processes(0, [FakeProcess(4711, 2 * GIB)])

    reading = source.read(WATCHED)

    (sample,) = reading.devices
    assert reading.notices == ()
    assert sample.device.kind == "cuda"
    assert sample.device.id == gpu.uuid
    assert sample.device.index == 0
    assert sample.device.name == gpu.name
    assert sample.device.pci_bus_id == gpu.pci_bus_id
    assert sample.total_bytes == 24 * GIB
    assert sample.used_bytes == 3 * GIB
    assert sample.driver_reserved_bytes == 500 * MIB
    assert sample.free_bytes == 24 * GIB - 3 * GIB - 500 * MIB
    assert sample.utilization_percent == 87
    assert sample.temperature_c == 61
    assert sample.power_w == pytest.approx(123.4)
    assert sample.power_limit_w == 450
    assert sample.processes == (ProcessSample(4711, 2 * GIB),)
    assert sample.reasons == {}
    assert not sample.stale


def test_memory_moves(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    for used in (0, 5 * GIB, 23 * GIB, MIB):
        loaded_nvml.device(0).used_bytes = used
        assert only(source).used_bytes == used


def test_zero_is_a_figure(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    gpu = loaded_nvml.device(0)
    gpu.reserved_bytes = gpu.temperature_c = gpu.power_mw = 0
    sample = only(source)
    assert sample.driver_reserved_bytes == sample.temperature_c == sample.power_w == 0
    assert sample.reasons == {}


@pytest.mark.parametrize("count", [8, 16])
def test_many_gpus_in_nvml_s_order(loaded_nvml: FakeNvml, source: NvmlSource, count: int) -> None:
    loaded_nvml.device_count = count
    devices = [sample.device for sample in source.read(WATCHED).devices]
    assert [device.index for device in devices] == list(range(count))
    assert [device.id for device in devices] == [gpu.uuid for gpu in loaded_nvml.devices]


def test_a_gpu_that_is_added_is_found(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    only(source)
    loaded_nvml.device_count = 2
    clock.now += 30
    assert len(source.read(WATCHED).devices) == 2


def test_no_gpu_says_so(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    loaded_nvml.device_count = 0
    reading = source.read(WATCHED)
    assert reading.devices == ()
    assert [notice.code for notice in reading.notices] == ["nvml-no-device"]


def test_the_first_gpu_is_found_within_five_seconds_if_somebody_watches(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    loaded_nvml.device_count = 0
    for _ in range(60):
        assert source.read(WATCHED).devices == ()
        clock.now += 1
    # Looked for in a new session, as a real driver needs it, but not each turn.
    assert 12 <= loaded_nvml.calls("nvmlInitWithFlags") <= 25
    loaded_nvml.device_count = 1
    waited = 0
    while not source.read(WATCHED).devices:
        clock.now += 1
        waited += 1
    assert waited <= 4


def test_no_gpu_is_looked_for_rarely_if_nobody_watches(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    loaded_nvml.device_count = 0
    for _ in range(600):
        source.read(ReadRequest(watched=False))
        clock.now += 1
    assert loaded_nvml.calls("nvmlInitWithFlags") <= 16


def test_a_name_that_does_not_decode_is_shown_as_far_as_it_does(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    loaded_nvml.device(0).name = b"NVIDIA \xff\xfe 24GB"
    assert only(source).device.name == "NVIDIA \ufffd\ufffd 24GB"


# --- memory of older drivers, and of none ------------------------------------------------------


@pytest.mark.parametrize("how", ["absent", "not found", "not supported"])
def test_older_drivers_tell_memory_with_what_is_reserved(
    fake_nvml: FakeNvml, new_source: NewSource, how: str
) -> None:
    if how == "absent":
        fake_nvml.without = ("nvmlDeviceGetMemoryInfo_v2",)
    else:
        code = FUNCTION_NOT_FOUND if how == "not found" else NOT_SUPPORTED
        fake_nvml.fail("nvmlDeviceGetMemoryInfo_v2", code)
    fake_nvml.device(0).used_bytes = GIB
    with fake_nvml.load_in_process():
        source = new_source()
        sample = only(source)
        for _ in range(3):
            only(source)
    assert sample.used_bytes == GIB + 512 * MIB
    assert sample.free_bytes == 24 * GIB - GIB - 512 * MIB
    assert sample.driver_reserved_bytes is None
    assert "too old" in sample.reasons["driver_reserved_bytes"]
    if how != "not supported":
        assert fake_nvml.calls("nvmlDeviceGetMemoryInfo_v2") <= 1, "asked again though absent"


@pytest.mark.parametrize("name", ["NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Jetson Thor"])
@pytest.mark.parametrize("told", ["not supported", "nothing", "the host's"])
def test_unified_memory_is_the_machine_s(
    loaded_nvml: FakeNvml, source: NvmlSource, name: str, told: str
) -> None:
    host = machine_memory()
    gpu = loaded_nvml.device(0)
    gpu.name = name
    gpu.reserved_bytes = 0
    gpu.total_bytes = {"not supported": 5, "nothing": 0, "the host's": host.total_bytes}[told]
    if told == "not supported":
        fail_memory(loaded_nvml, NOT_SUPPORTED)
    loaded_nvml.set_processes(0, [FakeProcess(12, GIB)])

    reading = source.read(WATCHED)

    (sample,) = reading.devices
    assert sample.device.unified_memory
    assert sample.total_bytes == host.total_bytes
    assert sample.free_bytes == pytest.approx(host.available_bytes, rel=0.2)
    assert sample.used_bytes is not None
    assert sample.free_bytes is not None
    assert sample.used_bytes + sample.free_bytes == sample.total_bytes
    assert sample.driver_reserved_bytes is None
    assert "driver_reserved_bytes" in sample.reasons
    assert sample.processes == (ProcessSample(12, GIB),)
    assert {notice.code for notice in reading.notices} == {"unified-memory"}
    assert source.read(WATCHED).devices[0].device == sample.device


def test_grace_is_known_by_its_addressing(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    loaded_nvml.device(0).addressing_mode = 2
    fail_memory(loaded_nvml, NOT_SUPPORTED)
    assert only(source).device.unified_memory


@pytest.mark.parametrize("told", ["not supported", "nothing", "the host's"])
def test_a_discrete_card_is_not_taken_for_unified_memory(
    loaded_nvml: FakeNvml, source: NvmlSource, told: str
) -> None:
    total = psutil.virtual_memory().total
    loaded_nvml.device(0).total_bytes = total if told == "the host's" else 0
    if told == "not supported":
        fail_memory(loaded_nvml, NOT_SUPPORTED)
    sample = only(source)
    assert not sample.device.unified_memory
    if told == "the host's":
        assert sample.total_bytes == total
        assert sample.driver_reserved_bytes == 512 * MIB
    else:
        assert sample.total_bytes is sample.used_bytes is sample.free_bytes is None
        assert {"total_bytes", "used_bytes", "free_bytes"} <= set(sample.reasons)
        assert sample.temperature_c == 40


# --- MIG ------------------------------------------------------------------------------------------


def test_slices_are_devices_of_their_own(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    for number in (0, 1):
        loaded_nvml.add_slice(0, 5 * GIB).used_bytes = (number + 1) * GIB
    loaded_nvml.set_processes(0, [FakeProcess(10, slice=0), FakeProcess(11, slice=1)])
    fail_memory(loaded_nvml, NO_PERMISSION, device=0)

    reading = source.read(WATCHED)

    parent, *slices = reading.devices
    assert [sample.device.id for sample in slices] == [
        loaded_nvml.slice(0, number).uuid for number in (0, 1)
    ]
    assert all(sample.device.parent_id == parent.device.id for sample in slices)
    assert all(sample.device.index == 0 for sample in slices)
    assert [sample.used_bytes for sample in slices] == [GIB, 2 * GIB]
    assert [sample.total_bytes for sample in slices] == [5 * GIB] * 2
    assert [sample.processes for sample in slices] == [
        (ProcessSample(10, None),),
        (ProcessSample(11, None),),
    ]
    assert all("MIG" in sample.reasons["utilization_percent"] for sample in slices)
    assert all("MIG" in sample.reasons["processes"] for sample in slices)
    assert parent.used_bytes is None
    assert "administrators" in parent.reasons["used_bytes"]
    assert parent.utilization_percent is None
    assert parent.temperature_c == 40
    assert parent.processes is None, "they would count twice"
    assert "MIG" in parent.reasons["processes"]
    assert {notice.code for notice in reading.notices} == {"process-memory-unsupported"}


def test_slices_come_and_go(loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock) -> None:
    assert len(source.read(WATCHED).devices) == 1
    loaded_nvml.add_slice(0, 5 * GIB)
    clock.now += 30
    assert len(source.read(WATCHED).devices) == 2
    loaded_nvml.remove_slices(0)
    clock.now += 30
    assert len(source.read(WATCHED).devices) == 1
    assert codes(source) == set()


def test_mig_mode_without_slices_is_a_gpu(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    loaded_nvml.device(0).mig_enabled = 1
    assert only(source).processes == ()


# --- processes ------------------------------------------------------------------------------------


def test_a_process_that_computes_and_draws_is_listed_once(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    listed = [
        FakeProcess(30, GIB, "both"),
        FakeProcess(10, 2 * GIB, "graphics"),
        FakeProcess(20, 3 * GIB, "compute"),
    ]
    loaded_nvml.set_processes(0, listed)
    assert only(source).processes == (
        ProcessSample(10, 2 * GIB),
        ProcessSample(20, 3 * GIB),
        ProcessSample(30, GIB),
    )


def test_processes_come_and_go(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    for pids in ([], [1], [1, 2, 3], [3], []):
        loaded_nvml.set_processes(0, [FakeProcess(pid, MIB) for pid in pids])
        processes = only(source).processes
        assert processes is not None
        assert [process.pid for process in processes] == pids


def test_processes_without_figures_say_so(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    loaded_nvml.set_processes(0, [FakeProcess(7), FakeProcess(8)])
    reading = source.read(WATCHED)
    assert reading.devices[0].processes == (ProcessSample(7, None), ProcessSample(8, None))
    assert {notice.code for notice in reading.notices} == {"process-memory-unsupported"}
    loaded_nvml.set_processes(0, [])
    assert codes(source) == set()


def test_one_process_without_a_figure_is_no_notice(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    loaded_nvml.set_processes(0, [FakeProcess(7), FakeProcess(8, MIB)])
    assert codes(source) == set()
    assert only(source).processes == (ProcessSample(7, None), ProcessSample(8, MIB))


@pytest.mark.parametrize("how", ["empty", "refused"])
def test_wsl_lists_no_processes_and_that_is_not_none_running(
    loaded_nvml: FakeNvml, new_source: NewSource, how: str
) -> None:
    if how == "refused":
        loaded_nvml.fail("nvmlDeviceGetComputeRunningProcesses_v3", NOT_SUPPORTED)
    source = new_source(wsl=True)
    reading = source.read(WATCHED)
    assert reading.devices[0].processes is None
    assert "WSL" in reading.devices[0].reasons["processes"]
    assert {notice.code for notice in reading.notices} == {"process-memory-unsupported"}


def test_more_bytes_than_the_device_has_are_not_believed(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    loaded_nvml.set_processes(0, [FakeProcess(0, GIB), FakeProcess(5, 2**63), FakeProcess(6, 1)])
    assert only(source).processes == (ProcessSample(5, None), ProcessSample(6, 1))


def test_without_graphics_what_computes_is_listed(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    loaded_nvml.fail("nvmlDeviceGetGraphicsRunningProcesses_v3", NOT_SUPPORTED)
    loaded_nvml.set_processes(0, [FakeProcess(5, GIB)])
    assert only(source).processes == (ProcessSample(5, GIB),)


def test_the_older_list_of_processes(fake_nvml: FakeNvml, new_source: NewSource) -> None:
    fake_nvml.without = (
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
    )
    fake_nvml.set_processes(0, [FakeProcess(5, GIB, "both")])
    with fake_nvml.load_in_process():
        assert only(new_source()).processes == (ProcessSample(5, GIB),)


# --- cost -----------------------------------------------------------------------------------------


def test_processes_are_listed_only_when_asked_for(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    function = "nvmlDeviceGetComputeRunningProcesses_v3"
    loaded_nvml.set_processes(0, [FakeProcess(5, GIB)])
    first = only(source, WITHOUT_PROCESSES)
    calls = loaded_nvml.calls(function)
    loaded_nvml.set_processes(0, [FakeProcess(6, GIB)])
    assert only(source, WITHOUT_PROCESSES).processes == first.processes
    assert loaded_nvml.calls(function) == calls
    assert only(source).processes == (ProcessSample(6, GIB),)


def test_what_does_not_change_is_not_asked_each_turn(
    eight: FakeNvml, new_source: NewSource, clock: Clock
) -> None:
    source = new_source()
    source.read(WITHOUT_PROCESSES)
    before = eight.calls()
    for _ in range(10):
        clock.now += 1
        source.read(WITHOUT_PROCESSES)
    # memory, utilization, temperature, power: of each GPU, each turn; nothing else
    assert eight.calls() - before == 10 * 8 * 4
    clock.now += 30
    source.read(WITHOUT_PROCESSES)
    assert eight.calls("nvmlDeviceGetName") == 8
    assert eight.calls("nvmlDeviceGetCount_v2") == 2
    assert eight.calls("nvmlInitWithFlags") == 1
    assert eight.calls("nvmlDeviceGetPcieThroughput") == 0


def test_a_turn_of_eight_gpus_is_cheap(eight: FakeNvml, new_source: NewSource) -> None:
    source = new_source()
    source.read(WITHOUT_PROCESSES)
    durations = []
    for _ in range(50):
        started = time.perf_counter()
        source.read(WITHOUT_PROCESSES)
        durations.append(time.perf_counter() - started)
    # 0.25 ms on a quiet machine; the best of many, with room for a slow one.
    assert min(durations) < 0.003


def test_a_figure_with_all_bits_set_is_no_figure(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    gpu = loaded_nvml.device(0)
    gpu.utilization_percent = gpu.temperature_c = gpu.power_mw = 0xFFFFFFFF
    sample = only(source)
    assert sample.utilization_percent is sample.temperature_c is sample.power_w is None
    assert set(sample.reasons) == {"utilization_percent", "temperature_c", "power_w"}


def test_every_field_that_is_unknown_has_a_reason(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    for function in (
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    ):
        loaded_nvml.fail(function, NOT_SUPPORTED)
    sample = only(source)
    assert {field for field in FIELDS if getattr(sample, field) is None} == set(FIELDS)
    assert set(sample.reasons) == set(FIELDS)
    assert all(reason.endswith(".") for reason in sample.reasons.values())
