"""The past: every peak kept, every row still adds up, at a bounded memory."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jupyter_vram.errors import HistoryError
from jupyter_vram.model.kernel_report import CellRun
from jupyter_vram.model.snapshot import DeviceView, KernelDevice, KernelView, Snapshot
from jupyter_vram.recorders import device_history
from jupyter_vram.recorders.history import MAX_CELLS, MAX_ENDED_CELLS, History
from support.scripted_source import gpu
from wire.schema import check

GIB = 1 << 30
START = 1_700_000_000.0
DEVICE = gpu().device.id


def kernel(
    kernel_id: str, held: int, *, devices: tuple[str, ...] = (DEVICE,), **fields: Any
) -> KernelView:
    parts = {"allocated": held - held // 4, "reserved_free": held // 4}
    view = KernelView(
        kernel_id=kernel_id,
        pid=1,
        name=f"{kernel_id}.ipynb",
        paths=(f"{kernel_id}.ipynb",),
        state="idle",
        devices=tuple(
            KernelDevice(device_id=device_id, parts=parts)  # type: ignore[arg-type]
            for device_id in devices
        ),
    )
    return dataclasses.replace(view, **fields)


def snapshot(
    time: float, *kernels: KernelView, count: int = 1, used: int = 8 * GIB, stale: bool = False
) -> Snapshot:
    views = []
    for index in range(count):
        sample = dataclasses.replace(gpu(index, used=used), stale=stale)
        held = sum(
            size
            for view in kernels
            for share in view.devices
            if share.device_id == sample.device.id
            for size in share.parts.values()
        )
        views.append(DeviceView(sample=sample, other_bytes=used - held, unattributed_bytes=0))
    return Snapshot(time=time, interval_s=1.0, devices=tuple(views), kernels=kernels)


def filled(*snapshots: Snapshot) -> History:
    history = History()
    for one in snapshots:
        history.append(one)
    return history


def test_rows_come_back_as_they_were_and_fit_the_schema() -> None:
    cell = CellRun(execution_count=3, started_at=START, ended_at=START + 1)
    history = filled(
        snapshot(START),
        snapshot(START + 1, kernel("k", 4 * GIB)),
        snapshot(START + 2, kernel("k", 6 * GIB, cells=(cell,)), used=9 * GIB),
    )
    past = history.history(DEVICE, 600, 300)
    check(past, "history")
    assert past["time"] == [START, START + 1, START + 2]
    assert past["columns"]["used_bytes"] == [8 * GIB, 8 * GIB, 9 * GIB]
    assert past["resolution_s"] == 1.0
    (own,) = past["kernels"].values()
    assert own["parts"]["allocated"] == [None, 3 * GIB, 4.5 * GIB]
    assert own["cells"] == [{"execution_count": 3, "started_at": START, "ended_at": START + 1}]
    assert not own["ended"]


def test_a_kernel_that_ended_keeps_its_name_and_its_past() -> None:
    history = filled(snapshot(START, kernel("k", GIB)), snapshot(START + 1))
    (own,) = history.history(DEVICE, 600, 300)["kernels"].values()
    assert (own["name"], own["ended"]) == ("k.ipynb", True)
    assert own["parts"]["reserved_free"] == [GIB // 4, None]


def test_only_the_span_asked_for_is_answered() -> None:
    history = filled(*(snapshot(START + n, kernel("k", GIB)) for n in range(100)))
    history.append(snapshot(START + 100))
    past = history.history(DEVICE, 10, 300)
    assert past["time"][0] == START + 90
    assert len(past["time"]) == 11


def test_a_device_that_does_not_answer_leaves_a_gap() -> None:
    history = filled(snapshot(START), snapshot(START + 1, stale=True), snapshot(START + 2))
    columns = history.history(DEVICE, 600, 300)["columns"]
    assert columns["used_bytes"] == [8 * GIB, None, 8 * GIB]
    assert columns["power_w"] == [100, None, 100]


def test_an_unknown_device_is_an_error_that_names_the_known() -> None:
    with pytest.raises(HistoryError, match=DEVICE):
        filled(snapshot(START)).history("GPU-other", 600, 300)
    with pytest.raises(HistoryError, match="none yet"):
        History().history(DEVICE, 600, 300)


def test_thinning_keeps_peaks_and_rows_that_add_up() -> None:
    history = History()
    for n in range(4000):
        peak = n % 997 == 500
        used = (70 if peak else 10 + n % 7) * GIB
        history.append(snapshot(START + n, kernel("k", used // 2), used=used))
    for seconds, points in ((4000, 100), (86400, 60), (600, 50)):
        past = history.history(DEVICE, seconds, points)
        assert 2 < len(past["time"]) <= points
        assert past["time"] == sorted(past["time"])
        (own,) = past["kernels"].values()
        columns = past["columns"]
        for row, used in enumerate(columns["used_bytes"]):
            parts = sum(part[row] for part in own["parts"].values())
            assert parts + columns["other_bytes"][row] == used
    past = history.history(DEVICE, 86400, 300)
    assert past["resolution_s"] == device_history.THIN_WIDTH_S
    assert past["columns"]["used_bytes"].count(70 * GIB) == 4


def test_a_gap_within_a_stretch_hides_no_figure_of_it() -> None:
    history = History()
    for n in range(2000):
        history.append(snapshot(START + n, stale=n % 2 == 0))
    used = history.history(DEVICE, 86400, 5000)["columns"]["used_bytes"]
    thinned = [value for value in used[: len(used) // 2] if value is not None]
    assert thinned
    first_thin = history._devices[DEVICE].thin
    assert None not in first_thin.take("used_bytes", range(1, len(first_thin)))


def test_notebooks_without_number_are_counted_as_other_in_the_end() -> None:
    history = History()
    for n in range(200):
        history.append(snapshot(START + n, kernel(f"k{n}", 4 * GIB)))
    table = history._devices[DEVICE].fine
    assert sum(isinstance(key, tuple) for key in table.keys) <= device_history.MAX_PART_COLUMNS
    past = history.history(DEVICE, 600, 300)
    for row, used in enumerate(past["columns"]["used_bytes"]):
        parts = sum(p[row] or 0 for k in past["kernels"].values() for p in k["parts"].values())
        assert parts + past["columns"]["other_bytes"][row] == used


def test_cells_are_bounded_and_the_latest_are_kept() -> None:
    history = History()
    for n in range(MAX_CELLS + 50):
        cells = (CellRun(execution_count=n, started_at=START + n, ended_at=START + n + 0.5),)
        history.append(snapshot(START + n, kernel("k", GIB, cells=cells)))
    (own,) = history.history(DEVICE, 86400, 300)["kernels"].values()
    assert len(own["cells"]) == MAX_CELLS
    assert own["cells"][-1]["execution_count"] == MAX_CELLS + 49


def test_a_kernel_that_ended_keeps_its_latest_runs_only() -> None:
    history = History()
    for n in range(MAX_ENDED_CELLS + 30):
        run = CellRun(execution_count=n, started_at=START + n, ended_at=START + n + 0.5)
        history.append(snapshot(START + n, kernel("own", GIB, cells=(run,))))
    history.append(snapshot(START + n + 1))
    ended = history.history(DEVICE, 3600, 5000)["kernels"]["own"]
    assert ended["ended"]
    assert len(ended["cells"]) == MAX_ENDED_CELLS
    assert ended["cells"][-1]["execution_count"] == n


def test_a_cell_is_updated_when_it_ends() -> None:
    running = CellRun(execution_count=None, started_at=START)
    ended = CellRun(execution_count=1, started_at=START, ended_at=START + 1)
    history = filled(
        snapshot(START, kernel("k", GIB, cells=(running,))),
        snapshot(START + 1, kernel("k", GIB, cells=(ended,))),
    )
    (own,) = history.history(DEVICE, 600, 300)["kernels"].values()
    assert [cell["ended_at"] for cell in own["cells"]] == [START + 1]


def test_a_run_ends_with_the_kernel_that_never_told_its_end() -> None:
    running = CellRun(execution_count=3, started_at=START)
    history = filled(snapshot(START, kernel("k", GIB, cells=(running,))))
    history.append(snapshot(START + 1, kernel("k", GIB, cells=(running,))))

    def ends() -> list[float | None]:
        (own,) = history.history(DEVICE, 600, 300)["kernels"].values()
        return [cell["ended_at"] for cell in own["cells"]]

    assert ends() == [None]
    history.append(snapshot(START + 2, kernel("k", GIB)))  # restarted: its report knows no run
    assert ends() == [START + 1]


def test_a_run_ends_with_the_last_sight_of_a_kernel_that_is_gone() -> None:
    running = CellRun(execution_count=3, started_at=START)
    history = filled(snapshot(START + 1, kernel("k", GIB, cells=(running,))), snapshot(START + 2))
    (own,) = history.history(DEVICE, 600, 300)["kernels"].values()
    assert own["ended"] is True
    assert [cell["ended_at"] for cell in own["cells"]] == [START + 1]


def test_a_device_and_a_kernel_unseen_for_a_day_are_forgotten() -> None:
    history = filled(snapshot(START, kernel("k", GIB), count=2))
    history.append(snapshot(START + device_history.THIN_SPAN_S + 10))
    assert history.device_ids == (DEVICE,)
    assert not history._kernels


def test_a_clock_set_back_is_survived() -> None:
    history = filled(*(snapshot(START + n, kernel("k", GIB)) for n in range(1000)))
    for n in range(600):
        history.append(snapshot(START + 300 + n, kernel("k", GIB)))
    past = history.history(DEVICE, 86400, 5000)
    assert past["time"] == sorted(set(past["time"]))
    assert past["time"][-1] == START + 899


def test_memory_is_bounded_over_a_day_of_8_gpus_and_10_kernels() -> None:
    history = History()
    ids = [gpu(index).device.id for index in range(8)]
    # Each on two GPUs, as most are at the most; a few hours tell, the rest only repeats.
    kernels = [kernel(f"k{n}", GIB // 2, devices=(ids[n % 8], ids[(n + 1) % 8])) for n in range(10)]
    still = snapshot(0, *kernels, count=8)
    for n in range(0, 86_400, 9):
        history.append(dataclasses.replace(still, time=START + n))
    thin = history._devices[ids[0]].thin
    per_row = history._devices[ids[0]].thin.nbytes / len(thin)
    # The fine part at 1 s has 9 times the rows that it got here.
    fine = sum(device.fine.nbytes for device in history._devices.values()) * 9
    thinned = sum(device.thin.nbytes for device in history._devices.values())
    assert fine + thinned < 5_000_000
    assert len(thin) <= 2 * device_history.THIN_SPAN_S / device_history.THIN_WIDTH_S * 1.06
    assert per_row < 8 * (1 + 8 + 3 * 3 + 1)


def test_threads_may_append_and_ask_at_once() -> None:
    history = filled(snapshot(START, kernel("k", GIB)))
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            past = history.histories(86400, 50)[DEVICE]
            lengths = {len(column) for column in past["columns"].values()}
            assert lengths == {len(past["time"])}

    with ThreadPoolExecutor(3) as threads:
        asking = [threads.submit(ask) for _ in range(3)]
        for n in range(1, 1500):
            history.append(snapshot(START + n, kernel(f"k{n // 100}", GIB)))
        stop.set()
        for future in asking:
            future.result(timeout=20)


def test_a_device_that_is_forgotten_meanwhile_harms_no_one_who_asks_for_all() -> None:
    history = filled(snapshot(START, count=2))

    class Interrupted:
        """A lock at whose first release another thread's snapshot comes in."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self._pending = True

        def __enter__(self) -> None:
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()
            if self._pending:
                self._pending = False
                history.append(snapshot(START + 2 * device_history.THIN_SPAN_S))

    history._lock = Interrupted()  # type: ignore[assignment]
    assert len(history.histories(60, 100)) == 2
    assert history.device_ids == (DEVICE,)
