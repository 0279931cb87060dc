"""The stand-in must behave as NVML does where the code under test relies on it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pynvml  # type: ignore[import-untyped]
import pytest

from support.fake_nvml import (
    GIB,
    NOT_SUPPORTED,
    FakeNvml,
    FakeProcess,
    layout,
)


def test_the_unmodified_pynvml_finds_it_in_a_new_process(fake_nvml: FakeNvml) -> None:
    fake_nvml.device(0).used_bytes = 3 * GIB
    code = (
        "import pynvml as p; p.nvmlInit(); h = p.nvmlDeviceGetHandleByIndex(0);"
        "print(p.nvmlDeviceGetMemoryInfo(h, version=p.nvmlMemory_v2).used)"
    )
    environment = {**os.environ, **fake_nvml.env()}
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert int(output) == 3 * GIB


def test_another_process_is_scripted_while_it_runs(fake_nvml: FakeNvml) -> None:
    code = (
        "import sys, pynvml as p; p.nvmlInit(); h = p.nvmlDeviceGetHandleByIndex(0)\n"
        "for _ in sys.stdin:\n"
        "    print(p.nvmlDeviceGetMemoryInfo(h, version=p.nvmlMemory_v2).used, flush=True)"
    )
    pipe = subprocess.PIPE
    environment = {**os.environ, **fake_nvml.env()}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for used in (GIB, 2 * GIB, 0):
            fake_nvml.device(0).used_bytes = used
            child.stdin.write("\n")
            child.stdin.flush()
            assert int(child.stdout.readline()) == used
        child.stdin.close()
    assert fake_nvml.calls("nvmlDeviceGetMemoryInfo_v2") == 3


def test_a_change_is_seen_by_the_next_call(loaded_nvml: FakeNvml) -> None:
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    for used in (0, GIB, 7):
        loaded_nvml.device(0).used_bytes = used
        assert pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used == used


def test_a_fault_is_of_one_function_and_device(tmp_path: Path) -> None:
    with FakeNvml(tmp_path / "state", devices=2) as fake, fake.load_in_process():
        pynvml.nvmlInit()
        first, second = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in (0, 1))
        fake.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED, device=0)
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetPowerUsage(first)
        assert pynvml.nvmlDeviceGetPowerUsage(second) > 0
        fake.lose(1)
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetHandleByIndex(1)
        fake.restore()
        assert pynvml.nvmlDeviceGetPowerUsage(first) > 0
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetPowerUsage(second)
        pynvml.nvmlShutdown()
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetPowerUsage(pynvml.nvmlDeviceGetHandleByIndex(1)) > 0


def test_an_absent_function_is_not_found(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path / "state", without=["nvmlDeviceGetMemoryInfo_v2"])
    with fake.load_in_process():
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        assert pynvml.nvmlDeviceGetMemoryInfo(handle).total == 24 * GIB


def test_a_broken_session_is_healed_by_shutting_down(loaded_nvml: FakeNvml) -> None:
    pynvml.nvmlInit()
    stale = pynvml.nvmlDeviceGetHandleByIndex(0)
    loaded_nvml.break_session()
    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetCount()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetName(stale)


def test_a_hanging_call_returns_when_restored(loaded_nvml: FakeNvml) -> None:
    pynvml.nvmlInit()
    loaded_nvml.hang(600, "nvmlDeviceGetCount_v2")
    thread = threading.Thread(target=pynvml.nvmlDeviceGetCount)
    thread.start()
    while loaded_nvml.calls("nvmlDeviceGetCount_v2") == 0:
        time.sleep(0.001)
    assert thread.is_alive()
    loaded_nvml.restore()
    thread.join(30)
    assert not thread.is_alive()


def test_what_a_peer_asks_is_answered_as_a_card_without_nvlink_does(
    loaded_nvml: FakeNvml,
) -> None:
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        pynvml.nvmlDeviceGetNvLinkVersion(handle, 0)
    fields = [(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, link) for link in range(4)]
    values = pynvml.nvmlDeviceGetFieldValues(handle, fields)
    assert [value.nvmlReturn for value in values] == [NOT_SUPPORTED] * 4
    assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle) == 4
    assert pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle) == 16
    started = time.perf_counter()
    assert pynvml.nvmlDeviceGetPcieThroughput(handle, pynvml.NVML_PCIE_UTIL_TX_BYTES) > 0
    assert time.perf_counter() - started >= 0.02, "the real one blocks for 20 ms"


def test_slices_list_their_own_processes(loaded_nvml: FakeNvml) -> None:
    for _ in range(2):
        loaded_nvml.add_slice(0, 5 * GIB)
    loaded_nvml.set_processes(0, [FakeProcess(10, slice=0), FakeProcess(11, slice=1)])
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    pids = [
        [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        for handle in (gpu, *(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i) for i in (0, 1)))
    ]
    assert pids == [[10, 11], [10], [11]]


def test_after_leaving_nothing_is_loaded(fake_nvml: FakeNvml) -> None:
    with fake_nvml.load_in_process():
        pynvml.nvmlInit()
        loaded = pynvml.nvmlLib._handle
    assert pynvml.nvmlLib is None
    assert "FAKE_NVML_STATE" not in os.environ
    try:
        by_name = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return  # no NVIDIA driver here
    assert by_name._handle != loaded


def test_the_layouts_agree(loaded_nvml: FakeNvml) -> None:
    """The library refuses a state file whose size differs from its own idea of it."""
    pynvml.nvmlInit()
    assert len(layout.FUNCTIONS) <= layout.MAX_FUNCTIONS
    assert pynvml.nvmlSystemGetDriverVersion() == "580.65.06"
