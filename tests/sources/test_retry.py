from __future__ import annotations

from typing import Protocol

from jupyter_vram.sources.retry import LONGEST_S, PATIENCE_S, Retry


class Clock(Protocol):
    now: float

    def __call__(self) -> float: ...


def test_what_never_failed_is_due(clock: Clock) -> None:
    assert Retry(clock).due(watched=False)


def test_watched_never_backs_off(clock: Clock) -> None:
    retry = Retry(clock)
    for _ in range(1000):
        retry.failed()
        assert not retry.due(watched=True)
        clock.now += PATIENCE_S
        assert retry.due(watched=True)


def test_unwatched_waits_twice_as_long_each_time_up_to_a_minute(clock: Clock) -> None:
    retry = Retry(clock)
    waits = []
    for _ in range(8):
        retry.failed()
        started = clock.now
        while not retry.due(watched=False):
            clock.now += 1
        waits.append(clock.now - started)
    assert waits == [3, 6, 12, 24, 48, LONGEST_S, LONGEST_S, LONGEST_S]


def test_a_success_is_a_new_beginning(clock: Clock) -> None:
    retry = Retry(clock)
    for _ in range(9):
        retry.failed()
    retry.succeeded()
    assert retry.due(watched=False)
    retry.failed()
    clock.now += PATIENCE_S
    assert retry.due(watched=False)


def test_a_costly_try_is_not_made_all_the_time(clock: Clock) -> None:
    retry = Retry(clock)
    retry.failed(cost_s=1.0)
    clock.now += 19
    assert not retry.due(watched=True)
    clock.now += 1
    assert retry.due(watched=True)
    retry.failed(cost_s=100.0)
    clock.now += 30
    assert retry.due(watched=True)
