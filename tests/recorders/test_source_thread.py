"""A source's thread: only a call that has not returned counts as a driver that hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from jupyter_vram.recorders.source_thread import SourceThread
from jupyter_vram.sources.source import ReadRequest
from support.scripted_source import ScriptedSource, eventually, gpu


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource(gpu())


@pytest.fixture
def thread(source: ScriptedSource) -> Iterator[SourceThread]:
    thread = SourceThread("The NVIDIA driver", source)
    yield thread
    source.let_go()
    thread.stop()
    thread.join(20)


def soon() -> float:
    return time.monotonic() + 20


def test_what_is_asked_is_answered(thread: SourceThread, source: ScriptedSource) -> None:
    thread.start()
    thread.ask(ReadRequest())
    answer = thread.collect(soon())
    assert (answer.reading, answer.late_s) == (source.reading, None)


def test_what_was_asked_before_the_first_start_is_read(thread: SourceThread) -> None:
    thread.ask(ReadRequest())
    thread.start()
    assert thread.collect(soon()).reading.devices


def test_a_request_left_unread_by_a_stop_does_not_make_a_later_start_late(
    thread: SourceThread, source: ScriptedSource
) -> None:
    thread.start()
    with thread._changed:  # so that the thread wakes up to both at once
        thread.ask(ReadRequest())
        thread.stop()
    thread.join(20)
    assert source.requests == []
    assert not thread.is_late
    thread.start()
    thread.ask(ReadRequest())
    assert thread.collect(soon()).late_s is None


def test_a_stopped_source_takes_no_request(thread: SourceThread, source: ScriptedSource) -> None:
    thread.start()
    thread.stop()
    thread.join(20)
    thread.ask(ReadRequest())
    assert not thread.is_late
    thread.start()
    thread.ask(ReadRequest())
    assert thread.collect(soon()).late_s is None
    assert len(source.requests) == 1


def test_a_call_that_hangs_through_a_restart_stays_late(
    thread: SourceThread, source: ScriptedSource
) -> None:
    thread.start()
    source.hang()
    thread.ask(ReadRequest())
    eventually(lambda: source.requests)
    thread.stop()
    thread.start()
    assert thread.is_late
    source.let_go()
    assert thread.collect(soon()).late_s is None
