"""A child that is a fork of this process: it has the notebook's variables as they are.

It has one thread, this one; it ends by ``os._exit``, so that nothing of the parent's runs twice
(buffers, exit handlers); and it dies with its parent.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from jupyter_vram.dry_run.child_settings import printed, settle
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.sandbox import scratch_folder
from jupyter_vram.errors import DryRunError
from jupyter_vram.sources.child_process import own_bytes

__all__ = ["printed", "run_forked"]

DONE, FAILED, NO_MEMORY = b"+", b"-", b"m"
_LENGTH_BYTES = 8
_CHUNK = 1 << 20
_LOOK_S = 0.05
"""How often the child's memory is looked at."""
_COUNT_S = 1.0
"""How often its pages are counted at most: that takes the kernel some 30 ms per 10 GiB."""
_PAGE_BYTES = 4096


def run_forked(job: Callable[[], bytes], limits: Limits) -> bytes:
    """What `job` returns, run in a forked child.

    Raises:
        DryRunError: the child crashed, was killed, or passed a limit; or `job` raised.
        KeyboardInterrupt: passed on, when the child is gone.
    """
    pid = 0
    reading = writing = -1
    data, status = b"", 0
    try:
        with _interrupts_wait():
            reading, writing = os.pipe()
            pid = _fork(job, writing, limits)
        os.close(writing)
        writing = -1
        data = _receive(pid, reading, limits)
    finally:
        with _interrupts_wait():
            for descriptor in (reading, writing):
                if descriptor >= 0:
                    os.close(descriptor)
            if pid:
                status = _end(pid)
                shutil.rmtree(scratch_folder(pid), ignore_errors=True)
    return _result(data, status)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """An interrupt comes at the end: in between, a child would be forgotten."""
    previous: Any = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield  # interrupts are the main thread's
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if came:
        signal.raise_signal(signal.SIGINT)


def _fork(job: Callable[[], bytes], writing: int, limits: Limits) -> int:
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python 3.12 warns where there are threads: the child has none, and takes no lock.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _child(job, writing, parent, limits)
    return pid


def _receive(pid: int, reading: int, limits: Limits) -> bytes:
    """All that the child writes until it closes its end. Raises `DryRunError` at a limit."""
    data = bytearray()
    inherited_bytes = own_bytes(pid)
    deadline = time.monotonic() + limits.timeout_s
    copies = _Copies(pid, limits)
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while True:
        if poll.poll(_LOOK_S * 1000):
            chunk = os.read(reading, _CHUNK)
            if not chunk:
                return bytes(data)
            data += chunk
            continue
        limits.check(pid, inherited_bytes, deadline)
        copies.check()


class _Copies:
    """Pages of the parent's that the child has written to: they are its own then, though it has no
    more of them than before."""

    def __init__(self, pid: int, limits: Limits) -> None:
        self._process = Path(f"/proc/{pid}")
        self._limits = limits
        self._counted = (0.0, 0)

    def check(self) -> None:
        """Raises `DryRunError` where they are more than the limit."""
        now, (then, faults_then) = time.monotonic(), self._counted
        try:
            # After the name, which may have blanks: minor faults are the tenth field of all.
            faults = int((self._process / "stat").read_text().rpartition(")")[2].split()[7])
            most_bytes = (faults - faults_then) * _PAGE_BYTES
            if now - then < _COUNT_S or most_bytes < self._limits.memory_bytes // 4:
                return
            lines = (self._process / "smaps_rollup").read_text().splitlines()
        except (OSError, IndexError):  # it has ended
            return
        self._counted = (now, faults)
        dirty = next((line for line in lines if line.startswith("Private_Dirty:")), "0 0 kB")
        self._limits.check_bytes(int(dirty.split()[1]) << 10)


def _end(pid: int) -> int:
    """Its status, once it is gone."""
    for end in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # somebody else has waited for it
        return 0


def _result(data: bytes, status: int) -> bytes:
    """What the child says, if it came to its end."""
    kind, length = data[:1], data[1 : 1 + _LENGTH_BYTES]
    content = data[1 + _LENGTH_BYTES :]
    if len(length) < _LENGTH_BYTES or len(content) != int.from_bytes(length, "big"):
        raise DryRunError(_ended(status))
    if kind == NO_MEMORY:
        raise DryRunError(
            "The dry run needed more memory of this machine than there is. Only tensors take none:"
            f" arrays, lists and data that the code makes do.\n{content.decode()}"
        )
    if kind == FAILED:
        raise DryRunError(f"The dry run failed:\n{content.decode()}")
    return content


def _ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name
        if number == signal.SIGKILL:
            return (
                "The dry run's process was killed (SIGKILL), most likely because this machine ran"
                " out of memory. The notebook is unharmed."
            )
        return (
            f"The dry run's process crashed ({name}) in compiled code. The notebook is unharmed;"
            " what the code calls can't be run on tensors without memory."
        )
    return (
        f"The code ended the dry run's process (exit status {os.waitstatus_to_exitcode(status)}):"
        " leave out calls such as os._exit."
    )


def _child(job: Callable[[], bytes], writing: int, parent: int, limits: Limits) -> NoReturn:
    """Never returns, whatever happens."""
    try:
        try:
            settle(parent, writing, limits.memory_bytes)
            kind, content = DONE, job()
        except MemoryError:
            kind, content = NO_MEMORY, _told()
        except BaseException:  # noqa: BLE001 - told to the parent
            kind, content = FAILED, _told()
        for part in (kind + len(content).to_bytes(_LENGTH_BYTES, "big"), content):
            view = memoryview(part)
            while view:
                view = view[os.write(writing, view) :]
        os._exit(0)
    finally:
        os._exit(1)


def _told() -> bytes:
    return traceback.format_exc().encode(errors="replace")
