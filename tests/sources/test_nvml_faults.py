"""NVML that fails: as a whole, one GPU, one function, for a while, and back again."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pynvml  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_vram.model.device import DeviceSample
from jupyter_vram.sources.nvml import NvmlSource
from jupyter_vram.sources.nvml_device import FIELDS
from jupyter_vram.sources.nvml_devices import ENUMERATE_S
from jupyter_vram.sources.nvml_finder import GONE_FOR_S
from jupyter_vram.sources.source import Reading, ReadRequest
from support.fake_nvml import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GIB,
    GPU_IS_LOST,
    LIB_RM_VERSION_MISMATCH,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
    FakeNvml,
    FakeProcess,
)

WATCHED = ReadRequest(watched=True)
UNWATCHED = ReadRequest()

NewSource = Callable[..., NvmlSource]


class Clock(Protocol):
    now: float


def codes(reading: Reading) -> list[str]:
    return [notice.code for notice in reading.notices]


def figures(sample: DeviceSample) -> dict[str, Any]:
    return {field: getattr(sample, field) for field in FIELDS}


# --- initialising ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DRIVER_NOT_LOADED, "nvml-driver-not-loaded"),
        (LIB_RM_VERSION_MISMATCH, "nvml-version-mismatch"),
        (UNKNOWN, "nvml-unknown-error"),
        (NO_PERMISSION, "nvml-no-permission"),
        (FUNCTION_NOT_FOUND, "nvml-too-old"),
        (TIMEOUT, "nvml-error"),
    ],
)
def test_each_failure_has_its_sentence_and_is_tried_again(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock, error: int, code: str
) -> None:
    loaded_nvml.fail_init(error)
    reading = source.read(WATCHED)
    assert reading.devices == ()
    assert codes(reading) == [code]
    assert reading.notices[0].message.endswith(".")
    loaded_nvml.restore()
    clock.now += 4
    assert codes(source.read(WATCHED)) == []
    assert len(source.read(WATCHED).devices) == 1


def test_watched_is_tried_again_within_five_seconds_always(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    loaded_nvml.fail_init(DRIVER_NOT_LOADED)
    for _ in range(600):
        source.read(WATCHED)
        clock.now += 1
    assert 150 <= loaded_nvml.calls("nvmlInitWithFlags") <= 300
    loaded_nvml.restore()
    waited = 0
    while not source.read(WATCHED).devices:
        clock.now += 1
        waited += 1
    assert waited <= 4


def test_unwatched_backs_off_and_a_watcher_ends_that(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    loaded_nvml.fail_init(DRIVER_NOT_LOADED)
    for _ in range(600):
        source.read(UNWATCHED)
        clock.now += 1
    assert loaded_nvml.calls("nvmlInitWithFlags") <= 16
    loaded_nvml.restore()
    clock.now += 3
    assert len(source.read(WATCHED).devices) == 1


def test_each_time_it_works_ends_the_back_off(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    for _ in range(3):
        loaded_nvml.fail_init(DRIVER_NOT_LOADED)
        for _ in range(20):
            source.read(UNWATCHED)
            clock.now += 1
        loaded_nvml.restore()
        clock.now += 60
        assert len(source.read(UNWATCHED).devices) == 1
        loaded_nvml.fail_init(DRIVER_NOT_LOADED)
        source.read(UNWATCHED)
        loaded_nvml.restore()
        clock.now += 3
        assert not source.read(UNWATCHED).devices[0].stale


def test_what_fails_from_the_start_is_not_tried_twice_in_one_turn(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    loaded_nvml.fail("nvmlDeviceGetCount_v2", UNKNOWN)
    assert codes(source.read(WATCHED)) == ["nvml-unknown-error"]
    assert loaded_nvml.calls("nvmlInitWithFlags") == 1


def test_a_failure_that_lasts_keeps_its_memory(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    """An exception raised again and again would hold every frame that it went through."""
    loaded_nvml.fail_init(DRIVER_NOT_LOADED)
    for _ in range(50):
        source.read(WATCHED)
    failure = source._session._failure
    assert failure is not None
    depth, traceback = 0, failure.__traceback__
    while traceback is not None:
        depth, traceback = depth + 1, traceback.tb_next
    assert depth < 10


def test_nothing_is_touched_before_the_first_read_nor_left_after_closing(
    loaded_nvml: FakeNvml, source: NvmlSource
) -> None:
    assert loaded_nvml.calls() == 0
    source.read(WATCHED)
    source.close()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()
    source.close()
    assert len(source.read(WATCHED).devices) == 1


def run_python(code: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)


READ = (
    "from jupyter_vram.sources.nvml import NvmlSource\n"
    "from jupyter_vram.sources.source import ReadRequest\n"
    "import sys\n"
    "assert 'pynvml' not in sys.modules\n"
    "reading = NvmlSource(wsl=False).read(ReadRequest())\n"
    "print([d.used_bytes for d in reading.devices], [n.code for n in reading.notices])\n"
)


def test_the_library_is_found_by_its_name(fake_nvml: FakeNvml) -> None:
    fake_nvml.device(0).used_bytes = GIB
    assert run_python(READ, **fake_nvml.env()) == f"[{GIB}] []\n"


def test_no_library_is_no_driver(tmp_path: Path) -> None:
    found = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False)
    if "libnvidia-ml.so.1" in found.stdout:
        pytest.skip("this machine has the real library")
    assert run_python(READ, LD_LIBRARY_PATH="") == "[] ['nvml-library-missing']\n"


def test_a_missing_binding_says_what_to_install(
    source: NvmlSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert codes(source.read(WATCHED)) == ["nvml-binding-missing"]


def test_another_package_of_the_same_name_is_told_apart(
    source: NvmlSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", types.ModuleType("pynvml"))
    reading = source.read(WATCHED)
    assert codes(reading) == ["nvml-binding-foreign"]
    assert "nvidia-ml-py" in reading.notices[0].message


# --- the session ------------------------------------------------------------------------------


def test_a_reload_of_a_container_s_permissions_is_healed_at_once(
    eight: FakeNvml, new_source: NewSource
) -> None:
    source = new_source()
    source.read(WATCHED)
    eight.break_session()
    reading = source.read(WATCHED)
    assert reading.notices == ()
    assert len(reading.devices) == 8
    assert not any(sample.stale for sample in reading.devices)
    assert all(sample.used_bytes is not None for sample in reading.devices)


def test_a_lost_gpu_does_not_hide_that_the_session_broke(
    eight: FakeNvml, new_source: NewSource
) -> None:
    source = new_source()
    eight.lose(5)
    source.read(WATCHED)
    source.read(WATCHED)
    eight.break_session()
    stale = [sample.device.index for sample in source.read(WATCHED).devices if sample.stale]
    assert stale == [5]


def test_somebody_else_shuts_nvml_down(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    source.read(WATCHED)
    pynvml.nvmlShutdown()
    assert source.read(WATCHED).devices[0].used_bytes == 0


def test_somebody_else_shuts_nvml_down_while_it_starts(
    loaded_nvml: FakeNvml, source: NvmlSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = pynvml.nvmlDeviceGetCount

    def shut_down_and_count() -> int:
        monkeypatch.undo()
        pynvml.nvmlShutdown()
        return int(count())

    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", shut_down_and_count)
    reading = source.read(WATCHED)
    assert reading.notices == ()
    assert reading.devices[0].used_bytes == 0


@pytest.mark.parametrize("error", [UNKNOWN, UNINITIALIZED])
def test_a_session_that_stays_broken_shows_what_was_there_and_waits(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock, error: int
) -> None:
    (healthy,) = source.read(WATCHED).devices
    for function in pynvml_functions():
        loaded_nvml.fail(function, error)
    reading = source.read(WATCHED)
    (sample,) = reading.devices
    assert sample.device == healthy.device
    assert sample.stale
    assert sample.total_bytes == healthy.total_bytes
    assert sample.used_bytes is None
    assert sample.reasons["used_bytes"] == reading.notices[0].message
    assert reading.notices[0].severity == "error"
    inits = loaded_nvml.calls("nvmlInitWithFlags")
    for _ in range(2):
        clock.now += 1
        source.read(WATCHED)
    assert loaded_nvml.calls("nvmlInitWithFlags") == inits
    loaded_nvml.restore()
    clock.now += 2
    assert source.read(WATCHED).devices == (healthy,)


def pynvml_functions() -> list[str]:
    """All that devices are asked for."""
    return [
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v2",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetAddressingMode",
    ]


def test_a_driver_that_goes_is_told_and_found_again(
    eight: FakeNvml, new_source: NewSource, clock: Clock
) -> None:
    source = new_source()
    before = source.read(WATCHED)
    eight.fail_init(DRIVER_NOT_LOADED)
    during = source.read(WATCHED)
    assert codes(during) == ["nvml-driver-not-loaded"]
    assert [sample.device for sample in during.devices] == [s.device for s in before.devices]
    eight.restore()
    clock.now += 4
    assert source.read(WATCHED) == before


# --- one GPU ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GPU_IS_LOST, "gpu-lost"),
        (RESET_REQUIRED, "gpu-reset-required"),
        (UNKNOWN, "gpu-error"),
        (TIMEOUT, "gpu-error"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_one_bad_gpu_never_hides_the_others(
    eight: FakeNvml, new_source: NewSource, clock: Clock, error: int, code: str, known: bool
) -> None:
    source = new_source()
    before = source.read(WATCHED) if known else None
    eight.lose(3, error)
    reading = source.read(WATCHED)
    assert codes(reading) == [code]
    assert "GPU 3" in reading.notices[0].message
    assert len(reading.devices) == 8
    bad = reading.devices[3]
    assert bad.device.index == 3
    assert bad.stale
    assert bad.used_bytes is None
    assert set(bad.reasons) >= set(FIELDS) - {"total_bytes"}
    if before is not None:
        assert bad.device == before.devices[3].device
        assert bad.total_bytes == 24 * GIB
    for index, sample in enumerate(reading.devices):
        assert index == 3 or (sample.used_bytes == 0 and not sample.stale and not sample.reasons)

    eight.restore()
    clock.now += 4
    after = source.read(WATCHED)
    assert after.notices == ()
    assert after.devices[3].used_bytes == 0
    assert after.devices[3].device.id == eight.device(3).uuid
    assert len(after.devices) == 8


def test_a_lost_gpu_is_looked_for_rarely_if_nobody_watches(
    eight: FakeNvml, new_source: NewSource, clock: Clock
) -> None:
    source = new_source()
    eight.lose(3)
    for _ in range(600):
        source.read(UNWATCHED)
        clock.now += 1
    assert eight.calls("nvmlInitWithFlags") <= 16


def test_a_gpu_that_is_listed_no_more_is_still_told_of(
    eight: FakeNvml, new_source: NewSource, clock: Clock
) -> None:
    source = new_source()
    source.read(WATCHED)
    eight.device_count = 7
    clock.now += 30
    reading = source.read(WATCHED)
    assert codes(reading) == ["gpu-lost"]
    assert reading.devices[7].device.id == eight.device(7).uuid
    assert reading.devices[7].stale
    eight.device_count = 8
    clock.now += 4
    assert source.read(WATCHED).notices == ()


def test_a_gpu_that_was_taken_away_is_forgotten_in_the_end(
    eight: FakeNvml, new_source: NewSource, clock: Clock
) -> None:
    source = new_source()
    source.read(WATCHED)
    eight.device_count = 7
    for _ in range(int(GONE_FOR_S + ENUMERATE_S)):
        clock.now += 1
        source.read(WATCHED)
    began = eight.calls("nvmlInitWithFlags")
    for _ in range(60):
        clock.now += 1
        reading = source.read(WATCHED)
    assert len(reading.devices) == 7
    assert reading.notices == ()
    assert eight.calls("nvmlInitWithFlags") == began
    eight.device_count = 8
    clock.now += ENUMERATE_S
    assert len(source.read(WATCHED).devices) == 8


def test_a_lost_gpu_takes_its_slices_with_it(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    loaded_nvml.add_slice(0, 5 * GIB)
    before = source.read(WATCHED)
    loaded_nvml.lose(0)
    source.read(WATCHED)
    clock.now += 3
    reading = source.read(WATCHED)
    assert [sample.device for sample in reading.devices] == [s.device for s in before.devices]
    assert all(sample.stale for sample in reading.devices)
    loaded_nvml.restore()
    clock.now += 4
    assert not any(sample.stale for sample in source.read(WATCHED).devices)


def test_one_bad_slice_leaves_the_others(
    loaded_nvml: FakeNvml, source: NvmlSource, clock: Clock
) -> None:
    for _ in range(2):
        loaded_nvml.add_slice(0, 5 * GIB)
    source.read(WATCHED)
    loaded_nvml.fail_slice(0, 0, "nvmlDeviceGetUUID", UNKNOWN)
    clock.now += 30
    reading = source.read(WATCHED)
    assert {sample.device.id: sample.stale for sample in reading.devices} == {
        loaded_nvml.device(0).uuid: False,
        loaded_nvml.slice(0, 0).uuid: True,
        loaded_nvml.slice(0, 1).uuid: False,
    }


# --- one function -------------------------------------------------------------------------------

PER_FIELD = {
    "utilization_percent": "nvmlDeviceGetUtilizationRates",
    "temperature_c": "nvmlDeviceGetTemperature",
    "power_w": "nvmlDeviceGetPowerUsage",
    "power_limit_w": "nvmlDeviceGetEnforcedPowerLimit",
    "processes": "nvmlDeviceGetComputeRunningProcesses_v3",
}


@pytest.mark.parametrize("error", [NOT_SUPPORTED, NO_PERMISSION, TIMEOUT, UNKNOWN])
@pytest.mark.parametrize(("field", "function"), PER_FIELD.items())
def test_one_refused_figure_leaves_the_others(
    loaded_nvml: FakeNvml, source: NvmlSource, error: int, field: str, function: str
) -> None:
    healthy = figures(source.read(WATCHED).devices[0])
    source.close()
    loaded_nvml.fail(function, error)
    reading = source.read(WATCHED)
    sample = reading.devices[0]
    assert reading.notices == ()
    assert figures(sample) == {**healthy, field: None}
    assert set(sample.reasons) == {field}
    assert not sample.stale
    loaded_nvml.restore()
    source.close()
    assert figures(source.read(WATCHED).devices[0]) == healthy


@pytest.mark.parametrize("function", pynvml_functions())
def test_any_function_may_be_absent(
    fake_nvml: FakeNvml, new_source: NewSource, function: str
) -> None:
    fake_nvml.without = (function,)
    fake_nvml.set_processes(0, [FakeProcess(5, GIB)])
    with fake_nvml.load_in_process():
        source = new_source()
        reading = source.read(WATCHED)
        source.read(WATCHED)
    if function in ("nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"):
        assert codes(reading) == ["nvml-too-old"]
    else:
        assert reading.notices == ()
        (sample,) = reading.devices
        unknown = {field for field in FIELDS if getattr(sample, field) is None}
        lost = {name for name, needed in PER_FIELD.items() if needed == function}
        if function == "nvmlDeviceGetMemoryInfo_v2":
            lost = {"driver_reserved_bytes"}
        # The lists of processes have an older function to fall back on; temperature a newer one.
        assert unknown == lost - {"processes", "temperature_c"}
        assert set(sample.reasons) == unknown


def test_an_absent_function_is_asked_for_once(loaded_nvml: FakeNvml, source: NvmlSource) -> None:
    loaded_nvml.fail("nvmlDeviceGetPowerUsage", FUNCTION_NOT_FOUND)
    for _ in range(5):
        sample = source.read(WATCHED).devices[0]
    assert "too old" in sample.reasons["power_w"]
    assert loaded_nvml.calls("nvmlDeviceGetPowerUsage") == 1


# --- the log ------------------------------------------------------------------------------------


def test_what_repeats_is_logged_once(
    eight: FakeNvml, new_source: NewSource, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "jupyter_vram")
    source = new_source()
    eight.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED)
    eight.fail("nvmlDeviceGetTemperature", TIMEOUT, device=2)
    eight.lose(5)
    for _ in range(100):
        source.read(WATCHED)
        clock.now += 1
    assert len(caplog.records) == 2
    caplog.clear()
    eight.fail_init(DRIVER_NOT_LOADED)
    for _ in range(100):
        source.read(WATCHED)
        clock.now += 1
    assert len(caplog.records) == 1
    assert "modprobe" in caplog.text


# --- anything -----------------------------------------------------------------------------------

ERRORS = [NOT_SUPPORTED, NO_PERMISSION, TIMEOUT, FUNCTION_NOT_FOUND, UNKNOWN, UNINITIALIZED, 12345]
GLOBAL = ["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"]
errors = st.sampled_from([*ERRORS, GPU_IS_LOST, RESET_REQUIRED])
on_a_device = st.tuples(
    st.sampled_from([name for name in pynvml_functions() if name not in GLOBAL]),
    errors,
    st.integers(0, 2),
)
on_all = st.tuples(st.sampled_from(GLOBAL), errors, st.none())
steps = st.lists(
    st.tuples(
        st.lists(on_a_device, max_size=6) | st.lists(on_a_device | on_all, max_size=6),
        st.booleans(),  # restore first
        st.booleans(),  # watched
        st.booleans(),  # processes
        st.floats(0, 40),
    ),
    min_size=1,
    max_size=8,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(script=steps)
def test_whatever_fails_reading_never_does(
    tmp_path: Path, clock: Clock, empty_bus: Any, script: list[Any]
) -> None:
    with FakeNvml(tmp_path / "state", devices=4) as fake, fake.load_in_process():
        fake.add_slice(1, 5 * GIB)
        fake.set_processes(0, [FakeProcess(5, GIB, "both"), FakeProcess(6)])
        source = NvmlSource(clock=clock, bus=empty_bus, wsl=False)  # type: ignore[arg-type]
        everywhere = False
        for failing, restored, watched, processes, seconds in script:
            if restored:
                fake.restore()
            for function, error, device in failing:
                fake.fail(function, error, device)
                everywhere |= device is None or error == FUNCTION_NOT_FOUND
            reading = source.read(ReadRequest(watched=watched, processes=processes))
            check(reading)
            if not everywhere:
                (untouched,) = (s for s in reading.devices if s.device.index == 3)
                assert untouched.used_bytes == 0
                assert not untouched.reasons
                assert not untouched.stale
            clock.now += seconds
        fake.restore()
        clock.now += 31
        healed = source.read(WATCHED)
        check(healed)
        assert not any(sample.stale for sample in healed.devices)
        source.close()


def check(reading: Reading) -> None:
    ids = [sample.device.id for sample in reading.devices]
    assert len(set(ids)) == len(ids)
    for sample in reading.devices:
        for field, value in figures(sample).items():
            assert (value is None) <= (field in sample.reasons)
            if field == "processes":
                continue
            assert value is None or value >= 0
        for process in sample.processes or ():
            assert process.used_bytes is None or process.used_bytes >= 0
    for notice in reading.notices:
        assert notice.message.endswith(".")
