"""Which cell ran when, as a real IPython shell tells it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from jupyter_vram.kernel import cells
from jupyter_vram.kernel.cells import KEPT, CellLog
from support.kernels import Kernel


@pytest.fixture
def shell(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    shell: Any = InteractiveShell()  # type: ignore[no-untyped-call]
    shell.history_manager.enabled = False
    yield shell
    shell.history_manager.end_session()


@pytest.fixture
def changes() -> list[bool]:
    return []


@pytest.fixture
def log(shell: Any, changes: list[bool]) -> CellLog:
    cell_log = CellLog(shell, on_change=lambda: changes.append(cell_log.busy))
    cell_log.attach()
    shell.user_ns.update(log=cell_log, shell=shell, seen=[])
    return cell_log


def counts(log: CellLog) -> list[int | None]:
    return [run.execution_count for run in log.runs]


def test_a_run_has_its_number_and_its_times(log: CellLog, shell: Any) -> None:
    before = time.time()
    shell.run_cell("1", store_history=True)
    shell.run_cell("2", store_history=True)
    first, second = log.runs
    assert (first.execution_count, second.execution_count) == (1, 2)
    assert first.ended_at is not None
    assert second.ended_at is not None
    assert before <= first.started_at <= first.ended_at <= second.started_at <= second.ended_at


def test_while_it_runs_it_has_a_number_and_no_end(log: CellLog, shell: Any) -> None:
    for _ in range(2):
        shell.run_cell("seen.append((log.busy, log.runs[-1]))", store_history=True)
    assert [(busy, run.execution_count, run.ended_at) for busy, run in shell.user_ns["seen"]] == [
        (True, 1, None),
        (True, 2, None),
    ]
    assert not log.busy


def test_the_reporter_is_told_of_begin_and_end(
    log: CellLog, shell: Any, changes: list[bool]
) -> None:
    shell.run_cell("1", store_history=True)
    assert changes == [True, False]


@pytest.mark.parametrize(
    "code",
    ["1 / 0", "this is no Python", "raise SystemExit", "raise KeyboardInterrupt", "%nothing"],
)
def test_a_run_that_fails_ends(code: str, log: CellLog, shell: Any) -> None:
    shell.run_cell(code, store_history=True)
    shell.run_cell("1", store_history=True)
    assert counts(log) == [1, 2]
    assert all(run.ended_at for run in log.runs)
    assert not log.busy


def test_what_front_ends_ask_is_no_cell(log: CellLog, shell: Any) -> None:
    shell.run_cell("1", silent=True)
    shell.run_cell("1", store_history=False)
    shell.run_cell("", store_history=True)
    assert log.runs == ()
    assert not log.busy


@pytest.mark.parametrize("stored", [True, False])
def test_a_cell_in_a_cell_is_a_part_of_it(stored: bool, log: CellLog, shell: Any) -> None:
    shell.run_cell(
        f"shell.run_cell('1', store_history={stored}); seen.append((log.busy, log.runs))",
        store_history=True,
    )
    ((busy, runs),) = shell.user_ns["seen"]
    assert busy
    assert [run.ended_at for run in runs] == [None]
    (run,) = log.runs
    assert run.ended_at is not None
    assert not log.busy


def test_an_interrupted_run_without_a_result_ends(log: CellLog, shell: Any) -> None:
    shell.events.trigger("pre_run_cell", _Info())
    shell.events.trigger("post_run_cell", None)
    (run,) = log.runs
    assert run.ended_at is not None
    assert not log.busy


def test_a_run_whose_end_was_never_told_ends_with_the_next(log: CellLog, shell: Any) -> None:
    """As an interrupt does that hits IPython itself, not the cell's code."""
    shell.get_parent = lambda: {"header": {"msg_id": "first"}}
    shell.events.trigger("pre_run_cell", _Info())
    shell.events.trigger("pre_run_cell", _Info())
    shell.get_parent = lambda: {"header": {"msg_id": "second"}}
    shell.run_cell("shell.run_cell('1'); seen.append(log.runs)", store_history=True)
    ((lost, current),) = shell.user_ns["seen"]
    assert lost.ended_at is not None
    assert current.ended_at is None
    assert [run.ended_at is None for run in log.runs] == [False, False]
    assert not log.busy


def test_a_run_whose_begin_was_cut_short_leaves_nothing_open(
    log: CellLog, shell: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cells, "count_of_next", interrupted)
    shell.run_cell("1", store_history=True)
    assert "KeyboardInterrupt" in capsys.readouterr().out
    assert log.runs == ()
    assert not log.busy


def test_await_in_a_cell(log: CellLog, shell: Any) -> None:
    shell.user_ns["asyncio"] = asyncio
    shell.run_cell("await asyncio.sleep(0)", store_history=True)
    assert [run.ended_at is None for run in log.runs] == [False]


def test_the_latest_runs_are_kept(log: CellLog, shell: Any) -> None:
    for _ in range(KEPT + 8):
        shell.run_cell("1", store_history=True)
    assert counts(log) == list(range(9, KEPT + 9))


def test_a_run_that_began_before_is_not_ended_here(shell: Any) -> None:
    log = CellLog(shell, on_change=lambda: None)
    shell.user_ns["log"] = log
    shell.run_cell("log.attach()", store_history=True)
    assert log.runs == ()
    shell.run_cell("1", store_history=True)
    assert counts(log) == [2]


def test_detached_it_hears_nothing(log: CellLog, shell: Any) -> None:
    shell.run_cell("log.detach()", store_history=True)
    shell.run_cell("1", store_history=True)
    assert counts(log) == [1]
    assert not log.busy


def test_the_count_after_a_reset(log: CellLog, shell: Any) -> None:
    shell.run_cell("1", store_history=True)
    shell.reset()
    shell.user_ns.update(log=log, seen=[])
    shell.run_cell("seen.append(log.runs[-1].execution_count)", store_history=True)
    assert shell.user_ns["seen"] == [1]
    assert counts(log) == [1, 1]


def test_runs_of_two_threads_do_not_end_each_other(shell: Any) -> None:
    log = CellLog(shell, on_change=lambda: None)
    outer: Any = _Info()
    inner: Any = _Info()

    def other() -> None:
        log._begin(inner)
        log._end(None)

    log._begin(outer)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert [run.ended_at is None for run in log.runs] == [True, False]
    assert log.busy


class _Info:
    raw_cell = "1"
    store_history = True
    silent = False


def test_in_a_kernel_the_report_tells_the_runs(kernel: Kernel) -> None:
    for _ in range(3):
        kernel.run("1")
    report = kernel.until(lambda report: [c for c in report.cells if c.ended_at][2:])
    assert [cell.execution_count for cell in report.cells] == [1, 2, 3]


def test_in_a_kernel_a_lost_end_does_not_hide_the_next_runs(kernel: Kernel) -> None:
    kernel.run(
        "events = get_ipython().events; trigger = events.trigger\n"
        "events.trigger = lambda name, *a: None if name == 'post_run_cell' else trigger(name, *a)"
    )
    kernel.run("del events.trigger")
    kernel.run("1")
    report = kernel.until(lambda report: len([c for c in report.cells if c.ended_at]) == 3)
    assert [cell.execution_count for cell in report.cells] == [1, 2, 3]
