"""The reporter's thread: in this process, and in real kernels that are busy or fork."""

from __future__ import annotations

import builtins
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_vram.kernel import reporter as reporter_module
from jupyter_vram.kernel.reporter import THREAD_NAME, Reporter, read_report
from jupyter_vram.model.kernel_report import CellRun, KernelReport
from jupyter_vram.sources.report_file import ReportReader, report_path
from support.kernels import Kernel, Kernels, until

LOG = logging.getLogger("jupyter_vram.test")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return report_path(tmp_path / "kernel-1.json")


@pytest.fixture
def reporter(path: Path) -> Iterator[Reporter]:
    one = Reporter(path, LOG)
    yield one
    one.stop()
    assert THREAD_NAME not in [thread.name for thread in threading.enumerate()]


def report_at(path: Path) -> KernelReport | None:
    reading = ReportReader().read(path)
    return None if reading is None else reading.report


def first_report(path: Path) -> KernelReport:
    report = until(lambda: report_at(path), "the first report")
    assert isinstance(report, KernelReport)
    return report


def test_the_first_report_comes_at_once(reporter: Reporter, path: Path) -> None:
    reporter.start()
    report = first_report(path)
    assert report.pid == os.getpid()
    assert report.period_s == reporter_module.IDLE_PERIOD_S
    assert report.problem is None


def test_waking_brings_a_report_before_its_time(
    reporter: Reporter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "IDLE_PERIOD_S", 3600.0)
    reporter.start()
    first = first_report(path)
    reporter.wake()
    until(lambda: report_at(path) != first, "another report")


def test_while_a_cell_runs_reports_are_closer(path: Path) -> None:
    cells = (CellRun(execution_count=3, started_at=1.0),)
    one = Reporter(path, LOG, cells=lambda: cells, is_busy=lambda: True)
    one.start()
    try:
        report = first_report(path)
    finally:
        one.stop()
    assert report.period_s == reporter_module.BUSY_PERIOD_S
    assert report.cells == cells


def test_stopping_removes_the_report_and_nothing_comes_after(
    reporter: Reporter, path: Path
) -> None:
    reporter.start()
    first_report(path)
    reporter.stop()
    reporter.stop()
    reporter.wake()
    reporter._report(1.0)
    assert list(path.parent.iterdir()) == []


def test_stopping_does_not_wait_for_the_next_report(
    reporter: Reporter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter_module, "IDLE_PERIOD_S", 3600.0)
    monkeypatch.setattr(reporter_module, "LEAST_GAP_S", 0.0)
    reporter.start()
    first_report(path)
    reporter.stop()
    assert not reporter._thread.is_alive()


def test_stopping_before_the_start_is_fine(reporter: Reporter) -> None:
    reporter.stop()


def test_trouble_with_the_allocator_is_reported_and_logged_once(
    reporter: Reporter,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reporter_module, "IDLE_PERIOD_S", 3600.0)
    failures = 0

    def broken(*_: object) -> KernelReport:
        nonlocal failures
        failures += 1
        raise RuntimeError(f"number {failures}")

    with monkeypatch.context() as patch:
        patch.setattr(reporter_module, "read_report", broken)
        reporter.start()
        report = first_report(path)
        assert "RuntimeError" in (report.problem or "")
        reporter.wake()
        until(lambda: failures > 1, "a second try")
    reporter.wake()
    until(lambda: (report_at(path) or report).problem is None, "a report without a problem")
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info


def test_a_disk_that_is_full_for_a_while(
    reporter: Reporter,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reporter_module, "IDLE_PERIOD_S", 0.2)
    tries = []

    def full(*_: object) -> None:
        tries.append(1)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(reporter_module, "write_report", full)
        reporter.start()
        until(lambda: len(tries) > 1, "a second try")
    first_report(path)
    assert [record.getMessage() for record in caplog.records] == [
        "The report of GPU memory was not written: [Errno 28] No space left on device"
    ]


def test_a_folder_that_is_refused_is_said_once(
    reporter: Reporter,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reporter_module, "IDLE_PERIOD_S", 0.2)
    path.parent.symlink_to(tmp_path)
    reporter.start()
    until(lambda: caplog.records, "a warning")
    reporter.stop()
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert len(caplog.records) == 2  # not written; not removed
    path.parent.unlink()
    assert not path.exists()


def test_a_forked_child_neither_writes_nor_removes(reporter: Reporter, path: Path) -> None:
    reporter.start()
    first_report(path)

    def in_child() -> None:
        reporter.wake()
        reporter.stop()  # as the exit handlers of a child do
        os._exit(0 if path.exists() else 1)

    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    before = report_at(path)
    reporter.wake()
    until(lambda: report_at(path) != before, "the parent's next report")


def test_reading_costs_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(name: str, *_: object, **__: object) -> None:
        raise AssertionError(f"imports {name}")

    read_report(1.0)
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", forbidden)
        report = read_report(1.0)
    assert report.rss_bytes


# --- in real kernels -----------------------------------------------------------------------------


def test_reports_come_while_the_main_thread_is_busy(kernel: Kernel) -> None:
    request = kernel.send(
        "import pathlib, time\nwhile not pathlib.Path('stop').exists():\n    sum(range(1000))"
    )
    first = kernel.until(lambda report: report.cells and report.cells[-1].ended_at is None)
    kernel.until(lambda report: report.written_at > first.written_at + 2 * first.period_s)
    (Path(kernel.path).parents[2] / "stop").touch()
    assert kernel.wait(request)["status"] == "ok"
    (run,) = kernel.until(lambda report: report.cells[-1].ended_at).cells
    assert run.execution_count == 1
    assert run.ended_at is not None
    assert run.started_at < run.ended_at


def test_memory_that_a_cell_takes_is_seen(kernel: Kernel) -> None:
    before = kernel.first_report().rss_bytes or 0
    kernel.run("held = bytearray(b'x') * (200 << 20)")
    kernel.until(lambda report: (report.rss_bytes or 0) > before + (190 << 20))


def test_the_import_of_torch_is_seen(kernel: Kernel) -> None:
    pytest.importorskip("torch")
    assert kernel.first_report().torch_state == "not_imported"
    kernel.run("import torch")
    report = kernel.until(lambda report: report.torch_state != "not_imported")
    assert report.torch_version == kernel.value("torch.__version__")
    if kernel.value("torch.version.cuda") is None:
        assert report.torch_state == "no_cuda_build"
    else:
        assert report.torch_state == "cuda_not_initialized"


FORKS = {
    "os.fork": """
import gc, os
pid = os.fork()
if pid == 0:
    try:
        get_ipython().run_cell("1")
        for reporter in gc.get_objects():
            if type(reporter).__name__ == "Reporter":
                reporter.wake()
                reporter.stop()  # as an exit handler does
                os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(pid, 0)[1] == 0
""",
    "multiprocessing": """
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [1, -2, 3]) == [1, 2, 3]
""",
    "DataLoader": """
import torch
loader = torch.utils.data.DataLoader(range(8), num_workers=2, multiprocessing_context="fork")
assert len(list(loader)) == 8
""",
}


@pytest.mark.parametrize("fork", FORKS)
def test_forking_disturbs_no_report(fork: str, kernel: Kernel) -> None:
    if fork == "DataLoader":
        pytest.importorskip("torch")
    first = kernel.first_report()
    kernel.run(FORKS[fork])
    later = kernel.until(lambda report: report.cells and report.cells[-1].ended_at)
    assert later.pid == first.pid == kernel.pid
    assert list(kernel.path.parent.iterdir()) == [kernel.path]


def test_trouble_goes_to_the_kernels_log_never_to_a_cell(kernels: Kernels) -> None:
    kernel = kernels.start()
    kernel.first_report()
    outputs = kernel.run(
        "import pathlib, shutil, time\n"
        f"folder = pathlib.Path({str(kernel.path.parent)!r})\n"
        "while not folder.is_symlink():\n"  # the reporter makes the folder anew meanwhile
        "    shutil.rmtree(folder, ignore_errors=True)\n"
        "    try: folder.symlink_to('/')\n"
        "    except FileExistsError: pass\n"
        "time.sleep(1.5)"
    )
    assert [m["msg_type"] for m in outputs] == ["execute_input"]
    outputs = kernel.run("folder.unlink()\nfolder.exists()")
    kernel.first_report()
    assert [m["msg_type"] for m in outputs] == ["execute_input", "execute_result"]
