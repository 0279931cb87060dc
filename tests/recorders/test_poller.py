"""The poller: one beat for all, never held up by a driver, a subscriber or those who look."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from itertools import pairwise

import pytest

from jupyter_vram.model.device import ProcessSample
from jupyter_vram.model.kernel_report import KernelReport
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.notice import Notice
from jupyter_vram.model.snapshot import Measurement, ReportReading
from jupyter_vram.recorders.poller import Poller
from jupyter_vram.recorders.settings import PollerSettings
from jupyter_vram.sources.source import Reading
from support.scripted_source import ScriptedSource, eventually, gpu, host

QUICK = PollerSettings(
    min_interval_s=0.01, patience_s=0.1, first_patience_s=0.1, background_interval_s=0.05
)
SESSION = KernelSession(kernel_id="k", pid=42, name="a.ipynb", report_path="/reports/k.json")
REPORT = ReportReading(
    report=KernelReport(pid=43, written_at=0.0, period_s=0.5, package_version="1")
)


class Bench:
    """A poller whose surroundings are the test's."""

    def __init__(self) -> None:
        self.nvml = ScriptedSource(gpu(0, processes=(ProcessSample(44, 1),)))
        self.host = ScriptedSource(host())
        in_place = Notice("host", "info", "The host, since there is no GPU.")
        self.host.reading = dataclasses.replace(self.host.reading, notices=(in_place,))
        self.sessions: tuple[KernelSession, ...] = (SESSION,)
        self.asked_for: list[list[int]] = []
        self.got: list[Measurement] = []
        self.pollers: list[Poller] = []

    def ancestors(self, pids: Iterable[int]) -> Mapping[int, tuple[int, ...]]:
        self.asked_for.append(list(pids))
        return dict.fromkeys(pids, (1,))

    def poller(self, settings: PollerSettings = QUICK) -> Poller:
        poller = Poller(
            {"The NVIDIA driver": self.nvml, "The operating system": self.host},
            sessions=lambda: self.sessions,
            read_report=lambda path: REPORT if path == SESSION.report_path else None,
            ancestors=self.ancestors,
            settings=settings,
        )
        poller.subscribe(self.got.append)
        self.pollers.append(poller)
        return poller

    def latest(self) -> Measurement:
        count = len(self.got)
        eventually(lambda: len(self.got) > count)
        return self.got[-1]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.nvml.let_go()
    bench.host.let_go()
    for poller in bench.pollers:
        poller.stop()
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("jupyter-vram")])


def test_a_measurement_holds_all_that_was_read(bench: Bench) -> None:
    bench.poller().start()
    measurement = bench.latest()
    assert [sample.device.id for sample in measurement.devices] == ["GPU-00000000"]
    assert measurement.reports == {"k": REPORT}
    assert measurement.ancestors == {43: (1,), 44: (1,)}
    assert not measurement.stale
    assert bench.nvml.requests[0].kernel_pids == (42,)


@pytest.mark.parametrize(
    ("show_host", "with_gpu", "ids"),
    [
        ("auto", True, ["GPU-00000000"]),
        ("auto", False, ["host"]),
        ("always", True, ["GPU-00000000", "host"]),
        ("never", False, []),
    ],
)
def test_the_hosts_memory_is_shown_by_policy(
    bench: Bench, show_host: str, with_gpu: bool, ids: list[str]
) -> None:
    if not with_gpu:
        bench.nvml.reading = Reading(notices=(Notice("no-driver", "info", "None here."),))
    settings = dataclasses.replace(QUICK, show_host=show_host)  # type: ignore[arg-type]
    bench.poller(settings).start()
    measurement = bench.latest()
    assert [sample.device.id for sample in measurement.devices] == ids
    expected = [] if with_gpu else ["no-driver"]
    assert [notice.code for notice in measurement.notices if notice.code != "host"] == expected
    assert ("host" in {notice.code for notice in measurement.notices}) is (ids == ["host"])


def test_the_fastest_wish_sets_the_beat_and_the_limits_hold(bench: Bench) -> None:
    poller = bench.poller(PollerSettings(min_interval_s=0.1, background_interval_s=10))
    assert poller.interval_s == 10
    slow = poller.watch(5)
    fast = poller.watch(0.001)
    assert poller.interval_s == 0.1
    fast.interval_s = 2
    assert poller.interval_s == 2
    fast.interval_s = float("nan")
    assert poller.interval_s == 5
    fast.close()
    fast.close()
    slow.close()
    assert poller.interval_s == 10


def test_who_comes_to_watch_need_not_wait_for_the_background_beat(bench: Bench) -> None:
    poller = bench.poller(dataclasses.replace(QUICK, background_interval_s=3600))
    poller.start()
    bench.latest()
    poller.watch(0.02)
    bench.latest()
    assert bench.nvml.requests[-1].watched
    assert not bench.nvml.requests[0].watched


def test_the_beat_does_not_drift(bench: Bench) -> None:
    poller = bench.poller()
    poller.watch(0.05)
    began: list[float] = []
    poller.subscribe(lambda _: began.append(poller._anchor))
    poller.start()
    eventually(lambda: len(began) > 8)
    steps = [(later - earlier) / 0.05 for earlier, later in pairwise(began)]
    assert all(step == pytest.approx(round(step), abs=1e-6) for step in steps)
    assert all(step > 0.5 for step in steps)


def test_processes_are_read_less_often_than_memory(bench: Bench) -> None:
    settings = dataclasses.replace(QUICK, process_interval_s=3600)
    poller = bench.poller(settings)
    poller.watch(0.01)
    poller.start()
    eventually(lambda: len(bench.got) > 5)
    assert [request.processes for request in bench.nvml.requests[:5]] == [True] + [False] * 4
    assert len(bench.asked_for) == 1


def test_the_reports_beside_the_list_of_processes_are_kept_until_the_next_list(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    poller = bench.poller(dataclasses.replace(QUICK, process_interval_s=3600))
    poller.watch(0.01)
    poller.start()
    eventually(lambda: bench.got and bench.got[-1].listed_reports == {"k": REPORT})
    newer = ReportReading(problem="Newer.")
    monkeypatch.setattr(poller._measurer, "_read_report", lambda _path: newer)
    later = eventually(lambda: next((m for m in bench.got if m.reports == {"k": newer}), None))
    assert later.listed_reports == {"k": REPORT}
    monkeypatch.setattr(poller._measurer, "_processes_read", -1e9)
    eventually(lambda: bench.got[-1].listed_reports == {"k": newer})


def test_those_who_ask_at_once_share_one_reading(bench: Bench) -> None:
    poller = bench.poller(dataclasses.replace(QUICK, background_interval_s=3600, patience_s=30))
    poller.start()
    eventually(lambda: bench.got)
    bench.nvml.hang()
    first = poller.request()
    eventually(lambda: len(bench.nvml.requests) == 2)
    others = [poller.request() for _ in range(50)]
    bench.nvml.let_go()
    answers = {id(future.result(timeout=20)) for future in (first, *others)}
    assert len(answers) == 1
    assert len(bench.nvml.requests) == 2


def test_one_who_gives_up_waiting_takes_nothing_from_the_others(bench: Bench) -> None:
    poller = bench.poller(dataclasses.replace(QUICK, background_interval_s=3600, patience_s=30))
    poller.start()
    eventually(lambda: bench.got)
    bench.nvml.hang()
    gone, stays = poller.request(), poller.request()
    assert gone.cancel()
    bench.nvml.let_go()
    assert stays.result(timeout=20) is bench.got[-1]


def test_a_driver_that_hangs_is_told_and_holds_up_nothing_else(bench: Bench) -> None:
    poller = bench.poller(dataclasses.replace(QUICK, show_host="always"))
    poller.watch(0.02)
    poller.start()
    bench.latest()
    bench.nvml.hang()
    stale = eventually(lambda: next((m for m in bench.got if m.stale), None))
    assert [sample.stale for sample in stale.devices] == [True, False]
    (notice,) = stale.notices
    assert notice.code == "driver-hung"
    assert notice.message.startswith("The NVIDIA driver has not answered for some seconds")
    asked = len(bench.nvml.requests)
    reads = len(bench.host.requests)
    eventually(lambda: len(bench.host.requests) > reads + 5)
    assert len(bench.nvml.requests) == asked
    bench.nvml.reading = Reading(devices=(gpu(0, used=1 << 30),))
    bench.nvml.let_go()
    eventually(lambda: not bench.got[-1].stale)
    assert bench.got[-1].devices[0].used_bytes == 1 << 30


def test_a_driver_that_hangs_from_the_start_is_told(bench: Bench) -> None:
    bench.nvml.hang()
    bench.poller().start()
    measurement = bench.latest()
    assert measurement.stale
    assert [sample.device.id for sample in measurement.devices] == ["host"]
    assert [notice.code for notice in measurement.notices] == ["driver-hung", "host"]


def test_a_driver_may_take_its_time_to_start(bench: Bench) -> None:
    poller = bench.poller(dataclasses.replace(QUICK, first_patience_s=60))
    bench.nvml.hang()
    poller.start()
    first = poller.request()
    eventually(lambda: bench.nvml.requests)
    time.sleep(3 * QUICK.patience_s)  # nothing shall happen in that time
    assert not bench.got
    bench.nvml.let_go()
    assert not first.result(timeout=20).stale


def test_stopping_does_not_wait_for_a_driver_that_hangs(bench: Bench) -> None:
    poller = bench.poller()
    poller.watch(0.02)
    poller.start()
    bench.latest()
    bench.nvml.hang()
    eventually(lambda: bench.got[-1].stale)
    began = time.monotonic()
    poller.stop(timeout_s=0.2)
    assert time.monotonic() - began < 10  # the driver would hang for ever
    assert bench.nvml.closed == 0
    assert bench.host.closed == 1
    bench.nvml.let_go()
    eventually(lambda: bench.nvml.closed == 1)


def test_starting_and_stopping_again_and_again(bench: Bench) -> None:
    poller = bench.poller()
    for _ in range(3):
        poller.start()
        poller.start()
        bench.latest()
        poller.stop()
        poller.stop()
    assert bench.nvml.closed == 3
    with pytest.raises(CancelledError):
        poller.request().result(timeout=20)


def test_started_again_while_the_driver_hangs_one_thread_reads_it(bench: Bench) -> None:
    poller = bench.poller()
    poller.start()
    bench.latest()
    bench.nvml.hang()
    eventually(lambda: bench.got[-1].stale)
    poller.stop(timeout_s=0.05)
    poller.start()
    bench.latest()
    bench.nvml.let_go()
    eventually(lambda: not bench.got[-1].stale)
    assert len(bench.nvml.threads) == 1


def test_a_source_that_raises_becomes_a_notice_logged_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.nvml.error = RuntimeError("broken")
    with caplog.at_level(logging.ERROR):
        bench.poller().start()
        eventually(lambda: len(bench.got) > 3)
    notice, _host = bench.got[-1].notices
    assert notice.code == "source-failed"
    assert "RuntimeError: broken" in notice.message
    assert len(caplog.records) == 1
    bench.nvml.error = None
    eventually(lambda: not bench.got[-1].notices)


def test_a_subscriber_that_raises_harms_nobody(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    poller = bench.poller()

    def broken(measurement: Measurement) -> None:
        raise RuntimeError("subscriber")

    unsubscribe = poller.subscribe(broken)
    after: list[Measurement] = []
    poller.subscribe(after.append)
    with caplog.at_level(logging.ERROR):
        poller.start()
        eventually(lambda: len(after) > 3)
    assert len(caplog.records) == 1
    unsubscribe()
    bench.latest()


def test_surroundings_that_fail_are_told_and_the_figures_go_stale(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    poller = bench.poller()
    poller.watch(0.01)
    poller.start()
    bench.latest()
    good, bench.sessions = bench.sessions, None  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR):
        failed = eventually(lambda: next((m for m in bench.got if m.stale), None))
        eventually(lambda: len([m for m in bench.got if m.stale]) > 3)
    assert [notice.code for notice in failed.notices] == ["measuring-failed"]
    assert failed.devices
    assert len(caplog.records) == 1
    bench.sessions = good
    eventually(lambda: not bench.got[-1].stale)
