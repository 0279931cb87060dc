"""A child that is a fork of this process: it has the notebook's variables as they are.

It has one thread, this one; it ends by ``os._exit``, so that nothing of the parent's runs twice
(buffers, exit handlers); and it dies with its parent.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.sandbox import cut_descriptors, scratch_folder
from jupyter_vram.errors import DryRunError
from jupyter_vram.sources.child_process import own_bytes

DONE, FAILED = b"+", b"-"
_CHUNK = 1 << 20
_LOOK_S = 0.05
"""How often the child's memory is looked at."""
_PR_SET_PDEATHSIG = 1


def run_forked(job: Callable[[], bytes], limits: Limits) -> bytes:
    """What `job` returns, run in a forked child.

    Raises:
        DryRunError: the child crashed, was killed, or passed a limit; or `job` raised.
        KeyboardInterrupt: passed on, when the child is gone.
    """
    reading, writing = os.pipe()
    parent = os.getpid()
    try:
        with warnings.catch_warnings():
            # Python 3.12 warns where there are threads: the child has none, and takes no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
    except BaseException:
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        _child(job, writing, parent)
    os.close(writing)
    try:
        data = _receive(pid, reading, limits)
    finally:
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        status = _reap(pid)
        shutil.rmtree(scratch_folder(pid), ignore_errors=True)
    if data[:1] == DONE:
        return data[1:]
    if data[:1] == FAILED:
        raise DryRunError(f"The dry run failed:\n{data[1:].decode(errors='replace')}")
    raise DryRunError(_ended(status))


def _receive(pid: int, reading: int, limits: Limits) -> bytes:
    """All that the child writes until it closes its end. Raises `DryRunError` at a limit."""
    data = bytearray()
    inherited_bytes = own_bytes(pid)
    deadline = time.monotonic() + limits.timeout_s
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


def printed(most: int = 4000) -> str:
    """The end of what was printed in this child."""
    sys.stdout.flush()
    size = os.lseek(1, 0, os.SEEK_END)
    return os.pread(1, most, max(0, size - most)).decode(errors="replace")


def _reap(pid: int) -> int:
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:  # somebody else has waited for it
        return 0


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


def _child(job: Callable[[], bytes], writing: int, parent: int) -> NoReturn:
    """Never returns, whatever happens."""
    try:
        _settle(parent, writing)
        try:
            data = DONE + job()
        except BaseException:  # noqa: BLE001 - told to the parent
            data = FAILED + traceback.format_exc().encode()
        view = memoryview(data)
        while view:
            view = view[os.write(writing, view) :]
        os._exit(0)
    finally:
        os._exit(1)


def _settle(parent: int, writing: int) -> None:
    """A process of its own: no signals, tracers and threads of the parent's."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # An interrupt of the terminal is the parent's, which ends this process.
    os.setpgid(0, 0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("900")
    cut_descriptors({writing})
    # What the code prints is not the notebook's; the streams of a kernel belong to its parent.
    output = os.memfd_create("output")
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = os.fdopen(
        output, "w", encoding="utf-8", errors="replace", buffering=1
    )
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - for as long as the process lives
    sys.settrace(None)
    sys.setprofile(None)
    threading.settrace(None)
    torch = sys.modules.get("torch")
    if torch is not None:
        # A pool of threads does not survive a fork: the first parallel loop would wait for ever.
        torch.set_num_threads(1)
