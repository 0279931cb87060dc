"""A forked child: whatever it does, this process and the disk stay as they are."""

from __future__ import annotations

import ctypes
import io
import logging
import os
import pickle
import shutil
import signal
import socket
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

from jupyter_vram.dry_run.forked import run_forked
from jupyter_vram.dry_run.landlock import allow_writing_only_in
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.sandbox import enter_sandbox, notes
from jupyter_vram.errors import DryRunError

LIMITS = Limits(timeout_s=30, memory_bytes=1 << 30)


def sandboxed(job: Callable[[], object]) -> tuple[object, list[str]]:
    """What `job` returns in a sandbox, and what was noted."""

    def run() -> bytes:
        enter_sandbox()
        result = job()
        return pickle.dumps((result, [note.text for note in notes()]))

    result, noted = pickle.loads(run_forked(run, LIMITS))
    return result, noted


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
        result, _ = sandboxed(lambda: (file.readline(), raw.read(3)))
        assert result == ("two\n", b"two")
        assert file.readline() == "two\n"
        assert raw.read(3) == b"two"


def test_files_stay_as_they_are(tmp_path: Path) -> None:
    existing, other = tmp_path / "existing.csv", tmp_path / "new.txt"
    existing.write_text("a,b\n")
    guarded = run_forked(lambda: bytes([allow_writing_only_in()]), LIMITS) == b"\1"

    def job() -> list[object]:
        found: list[object] = []
        with existing.open("a") as file:
            file.write("1,2\n")
            file.seek(0)
        with open(existing, "r+") as file:  # noqa: PTH123
            found.append(file.read())
            file.write("more")
        with other.open("wb") as file:
            file.write(b"12")
        with open(other, "x") as file:  # noqa: PTH123
            file.write("12")
        torch.save({"x": torch.zeros(3)}, tmp_path / "checkpoint.pt")
        np.save(tmp_path / "array.npy", np.zeros(3))
        existing.rename(other)
        existing.unlink()
        (tmp_path / "a" / "b").mkdir(parents=True, exist_ok=True)
        shutil.rmtree(tmp_path)
        with pytest.raises(DryRunError) as error:
            os.open(existing, os.O_RDWR)
        found.append("changes nothing outside" in str(error.value))
        # Compiled code opens files itself: Linux refuses.
        native = os.fsencode(tmp_path / "native")
        found.append(ctypes.CDLL(None).open(native, os.O_CREAT | os.O_RDWR) if guarded else -1)
        return found

    result, noted = sandboxed(job)
    assert result == ["a,b\n", True, -1]
    assert existing.read_text() == "a,b\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["existing.csv"]
    assert any("checkpoint.pt was not written" in text for text in noted)


def test_written_log_of_the_parent_gets_nothing(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", buffering=1) as log:
        log.write("before\n")
        sandboxed(lambda: log.write("during\n"))
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nafter\n"


def test_temporary_files_work_and_go() -> None:
    import tempfile

    def job() -> str:
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("x")
        return tempfile.mkdtemp()

    folder, _ = sandboxed(job)
    assert isinstance(folder, str)
    assert not Path(folder).exists()


def test_no_network_no_processes() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    address = server.getsockname()
    ours, theirs = socket.socketpair()

    def job() -> list[str]:
        found = []
        for attempt in (
            lambda: socket.create_connection(address, 2),
            lambda: subprocess.run(["true"], check=True),
            os.fork,
        ):
            try:
                attempt()
            except (DryRunError, OSError) as error:  # noqa: PERF203
                found.append(type(error).__name__)
        found.append(str(os.system("true")))
        try:
            theirs.sendall(b"to the parent")
        except OSError as error:
            found.append(type(error).__name__)
        return found

    with server, ours, theirs:
        result, _ = sandboxed(job)
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(10)
    assert result == ["ConnectionRefusedError", "DryRunError", "DryRunError", "0", "OSError"]


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


def test_interrupt_is_passed_on_when_the_child_is_gone() -> None:
    def job() -> bytes:
        time.sleep(60)
        return b""

    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_forked(job, LIMITS)
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
