"""A child that is a new process: where there is no fork, and where a fork could not compute.

It gets a parcel through its input, and answers through a file of its own; what it prints is kept
for the error. It never sees a GPU.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from jupyter_vram.dry_run.process import Limits
from jupyter_vram.errors import DryRunError

_LOOK_S = 0.05
_RUN = "from jupyter_vram.dry_run.isolated import _child; _child()"
_TAIL = 2000


def run_isolated(payload: bytes, limits: Limits) -> bytes:
    """What `jupyter_vram.dry_run.running.rehearse_parcel` answers to a parcel, in a new process.

    Raises:
        DryRunError: the process could not start, crashed, or passed a limit.
        KeyboardInterrupt: passed on, when the process is gone.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter_vram-") as folder:
        answer, output = Path(folder) / "answer", Path(folder) / "output"
        job = pickle.dumps((sys.path, os.getcwd(), str(answer), str(output), payload))  # noqa: PTH109
        with output.open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-c", _RUN],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                env={
                    **os.environ,
                    "CUDA_VISIBLE_DEVICES": "",
                    "KINETO_LOG_LEVEL": "6",
                    "OMP_NUM_THREADS": "1",
                },
            )
            try:
                _feed(process, job)
                _wait(process, limits)
            finally:
                process.kill()
                process.wait()
        if answer.exists():
            return answer.read_bytes()
        tail = output.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    raise DryRunError(
        f"The dry run's process ended with {_status(process.returncode)}. The notebook is"
        f" unharmed. It printed:\n{tail}"
    )


def _feed(process: subprocess.Popen[bytes], job: bytes) -> None:
    """In a thread: the process may end, or hang, before it has read all."""

    def write() -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(job)
            process.stdin.close()
        except OSError:  # it has ended: its status tells
            return

    threading.Thread(target=write, daemon=True).start()


def _wait(process: subprocess.Popen[bytes], limits: Limits) -> None:
    deadline = time.monotonic() + limits.timeout_s
    while process.poll() is None:
        limits.check(process.pid, 0, deadline)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)


def _status(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"status {code}"


def _child() -> None:
    """The new process."""
    path, folder, answer, output, payload = pickle.load(sys.stdin.buffer)
    sys.path[:] = path
    os.chdir(folder)
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - for as long as the process lives
    from jupyter_vram.dry_run.running import rehearse_parcel

    data = rehearse_parcel(payload, Path(output))
    partial = Path(answer).with_suffix(".part")
    partial.write_bytes(data)
    partial.replace(answer)
    sys.stdout.flush()
    os._exit(0)
