"""The first thing in a forked child: it becomes a process of its own."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

from jupyter_vram.dry_run.descriptors import cut_descriptors

_PR_SET_PDEATHSIG = 1
_MOST_PRINTED_BYTES = 4 << 20
_KEPT_BYTES = 64 << 10


class _Printed(io.RawIOBase):
    """Descriptor 1, whose file does not grow without end: of much, the end is kept."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def write(self, data: Any) -> int:
        if os.lseek(1, 0, os.SEEK_CUR) > _MOST_PRINTED_BYTES:
            tail = _tail(_KEPT_BYTES)
            os.ftruncate(1, 0)
            os.lseek(1, 0, os.SEEK_SET)
            os.write(1, tail)
        return os.write(1, data)


_stream = io.TextIOWrapper(
    io.BufferedWriter(_Printed()), encoding="utf-8", errors="replace", line_buffering=True
)


def settle(parent: int, writing: int, file_bytes: int) -> None:
    """A process of its own: no signals, tracers, threads and streams of the parent's.

    Args:
        parent: its process; when its thread that forked ends, this one does.
        writing: the descriptor that stays.
        file_bytes: no file may grow larger.
    """
    _reset_signals()
    # An interrupt of the terminal is the parent's, which ends this process.
    os.setpgid(0, 0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("900")
    cut_descriptors({writing})
    _limit_files(file_bytes)
    _redirect_streams()
    _stop_tracing()
    torch = sys.modules.get("torch")
    if torch is not None:
        # A pool of threads does not survive a fork: the first parallel loop would wait for ever.
        torch.set_num_threads(1)


def printed(most: int = 4000) -> str:
    """The end of what was printed in this child."""
    with suppress(ValueError, OSError):  # the code may have closed it
        _stream.flush()
    return _tail(most).decode(errors="replace")


def _tail(most: int) -> bytes:
    size = os.fstat(1).st_size
    return os.pread(1, most, max(0, size - most))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            with suppress(ValueError, OSError):
                signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _limit_files(file_bytes: int) -> None:
    import resource  # not on Windows

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if hard == resource.RLIM_INFINITY or hard > file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, hard))


def _redirect_streams() -> None:
    """What the code prints is not the notebook's; the streams of a kernel belong to its parent."""
    output = os.memfd_create("output")
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    _mute_kernel()
    sys.stdout = sys.stderr = _stream
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - for as long as the process lives


def _mute_kernel() -> None:
    """A kernel's streams, which loggers hold, still reach the notebook from a fork: over a
    connection of their own, and with what was waiting in them."""
    kernel: Any = sys.modules.get("ipykernel.iostream")
    if kernel is None:
        return
    kernel.IOPubThread._really_send = lambda *_, **__: None  # noqa: SLF001
    kernel.OutStream.write = lambda _, text: _stream.write(text)
    kernel.OutStream.flush = lambda _: _stream.flush()
    for stream in (sys.stdout, sys.stderr):
        vars(stream).pop("write", None)  # IPython's, around the kernel's


def _stop_tracing() -> None:
    sys.settrace(None)
    sys.setprofile(None)
    threading.settrace(None)
    threading.setprofile(None)
    monitoring: Any = getattr(sys, "monitoring", None)  # Python 3.12
    for tool in range(6 if monitoring is not None else 0):
        if monitoring.get_tool(tool) is not None:
            monitoring.set_events(tool, 0)
