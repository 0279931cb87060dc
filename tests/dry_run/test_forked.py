"""A forked child: whatever it does, this process and the disk stay as they are."""

from __future__ import annotations

import ctypes
import io
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from jupyter_vram.dry_run.forked import printed, run_forked
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.errors import DryRunError
from support.kernels import until

LIMITS = Limits(timeout_s=30, memory_bytes=1 << 30)


def sleep() -> bytes:
    time.sleep(60)
    return b""


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    """No process, descriptor or folder of a child's."""
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert not psutil.Process().children()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors


def test_large_results_come_back() -> None:
    assert run_forked(lambda: b"x" * (100 << 20), LIMITS) == b"x" * (100 << 20)


def test_buffered_output_is_not_written_twice(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        log.write("once")
        run_forked(lambda: b"", LIMITS)
    assert (tmp_path / "log").read_text() == "once"


def test_reading_a_file_moves_nothing_here(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("one\ntwo\nthree\n")
    with (tmp_path / "data").open() as file, (tmp_path / "data").open("rb", 0) as raw:
        assert file.readline() == "one\n"
        raw.read(4)
        assert run_forked(lambda: file.readline().encode() + raw.read(3), LIMITS) == b"two\ntwo"
        assert file.readline() == "two\n"
        assert raw.read(3) == b"two"


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (lambda: ctypes.string_at(0), "crashed (SIGSEGV)"),
        (os.abort, "crashed (SIGABRT)"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed (SIGKILL)"),
        (lambda: os._exit(3), "exit status 3"),
        (lambda: sys.exit(4), "SystemExit: 4"),
        (lambda: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_end_of_the_child_is_told(job: Callable[[], bytes], words: str) -> None:
    with pytest.raises(DryRunError) as error:
        run_forked(job, LIMITS)
    assert words in str(error.value)


def test_endless_loop_ends_at_the_timeout() -> None:
    def job() -> bytes:
        while True:
            pass

    with pytest.raises(DryRunError, match=r"given up after 0\.3 s"):
        run_forked(job, Limits(timeout_s=0.3))


def test_memory_without_end_is_stopped() -> None:
    def job() -> bytes:
        kept = []
        while True:
            kept.append(b"x" * (8 << 20))

    with pytest.raises(DryRunError, match=r"took more than 0\.2 GiB"):
        run_forked(job, Limits(timeout_s=30, memory_bytes=200 << 20))


def test_memory_of_the_parent_does_not_count_and_is_not_copied() -> None:
    data = np.ones(1 << 30, np.uint8)
    before = psutil.virtual_memory().available
    lowest = []

    def job() -> bytes:
        total = int(data[:: 1 << 12].sum())
        return pickle.dumps((total, psutil.virtual_memory().available))

    total, available = pickle.loads(run_forked(job, Limits(timeout_s=30, memory_bytes=200 << 20)))
    lowest.append(available)
    assert total == 1 << 18
    assert before - min(lowest) < 500 << 20


def test_parents_memory_that_is_changed_counts() -> None:
    data = np.zeros(400 << 20, np.uint8)
    data += 1

    def job() -> bytes:
        while True:
            np.add(data, 1, out=data)

    with pytest.raises(DryRunError, match=r"took more than 0\.2 GiB"):
        run_forked(job, Limits(timeout_s=30, memory_bytes=200 << 20))
    assert data[0] == 1


def test_memory_that_nobody_has() -> None:
    def job() -> bytes:
        raise MemoryError

    with pytest.raises(DryRunError, match="more memory of this machine than there is"):
        run_forked(job, LIMITS)


def test_of_much_output_the_end_is_kept() -> None:
    def job() -> bytes:
        for number in range(200_000):
            print(f"{number:100}")
        os.write(2, b"the end")
        return f"{os.fstat(1).st_size} {printed(20)}".encode()

    size, _, end = run_forked(job, LIMITS).decode().partition(" ")
    assert int(size) < 8 << 20
    assert end.endswith("199999\nthe end")


def test_loggers_of_before_write_nowhere_else(capfd: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    record = logging.makeLogRecord({"msg": "from the child"})

    def job() -> bytes:
        handler.handle(record)
        os.write(2, b"and this")
        return b""

    run_forked(job, LIMITS)
    assert capfd.readouterr() == ("", "")


def test_interrupt_while_the_child_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    fork = os.fork
    made: list[int] = []

    def interrupted() -> int:
        pid = fork()
        if pid:
            made.append(pid)
            os.kill(os.getpid(), signal.SIGINT)
        return pid

    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_forked(sleep, LIMITS)
    assert not psutil.pid_exists(made[0])


def test_from_another_thread() -> None:
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(run_forked(lambda: b"x", LIMITS)))
    thread.start()
    thread.join()
    assert found == [b"x"]


def test_child_dies_with_its_parent() -> None:
    code = """
import os, time
from jupyter_vram.dry_run.forked import printed, run_forked
from jupyter_vram.dry_run.process import Limits
import threading
def job():
    time.sleep(60)
def tell():
    import psutil
    while not (children := psutil.Process().children()):
        pass
    time.sleep(0.1)
    print(children[0].pid, flush=True)
    os._exit(0)
threading.Thread(target=tell).start()
run_forked(job, Limits(timeout_s=60))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    pid = int(result.stdout)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_interrupt_is_passed_on_when_the_child_is_gone() -> None:
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_forked(sleep, LIMITS)
    timer.join()


def test_threads_that_hold_locks_do_not_stop_it() -> None:
    logger = logging.getLogger("held")
    handler = logging.StreamHandler(io.StringIO())
    logger.addHandler(handler)
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with handler.lock:  # type: ignore[union-attr]
            holding.set()
            release.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait()
    x = torch.ones(300, 300)
    (x @ x).sum()  # torch's own threads run

    def job() -> bytes:
        logger.warning("from the child")
        y = torch.ones(300, 300, requires_grad=True)
        (y @ y).sum().backward()
        inner = threading.Thread(target=lambda: None)
        inner.start()
        inner.join()
        return b"done"

    try:
        assert run_forked(job, LIMITS) == b"done"
    finally:
        release.set()
        thread.join()


def test_nobody_is_asked() -> None:
    with pytest.raises(DryRunError, match="EOFError"):
        run_forked(lambda: input().encode(), LIMITS)
