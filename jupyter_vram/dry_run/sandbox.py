"""Nothing of a dry run is written outside: files, sockets and processes are the real run's.

What a training cell writes as it goes (checkpoints, logs) lands in a folder that goes with the dry
run; what would change something else is refused with an error that names it. Memory that several
processes share (a NumPy array mapped from a file in mode ``r+``) is the one thing that can't be
kept from being written; torch's own is never (`jupyter_vram.dry_run.mode`).
"""

from __future__ import annotations

import builtins
import getpass
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from jupyter_vram.dry_run import checkpoints
from jupyter_vram.dry_run.copies import Copies
from jupyter_vram.dry_run.landlock import allow_writing_only_in
from jupyter_vram.dry_run.overlay import WRITES, Overlay
from jupyter_vram.dry_run.refusals import (
    NO_EFFECT,
    NobodyAnswersError,
    NotRunError,
    note,
    notes,
    refused,
    short,
)

__all__ = ["enter_sandbox", "notes", "scratch_folder"]

_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "MLFLOW_TRACKING_URI": "",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Libraries that ask are told that there is no network."""
_CHANGED = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.truncate": ((0, None),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
}
"""Audited event → places, among its arguments, of paths that change, each with that of the folder
they begin at (docs.python.org/3/library/audit_events.html)."""
_RUNS = frozenset({"os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn"})
_SENDS = frozenset({"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"})
_LOOKS_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
_DEVICES = ("null", "zero", "full", "tty", "nvidia*", "nvidia-caps/*")


def scratch_folder(pid: int) -> Path:
    """Where a child may write. Its parent removes it."""
    return Path(tempfile.gettempdir()) / f"jupyter_vram-dry-run-{pid}"


def enter_sandbox(folder: Path | None = None) -> None:
    """From now on, for good. Only in a process of its own.

    Args:
        folder: where it may write; its own `scratch_folder`, if it is a fork.
    """
    os.environ.update(_OFFLINE)
    hub: Any = sys.modules.get("huggingface_hub.constants")
    if hub is not None:
        hub.HF_HUB_OFFLINE = True
    if folder is None:
        folder = scratch_folder(os.getpid())
        shutil.rmtree(folder, ignore_errors=True)  # of one whose parent was killed
        folder.mkdir(mode=0o700)
    folder = folder.resolve()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    copies = Copies(folder, _note_change)
    Overlay(copies).install()
    checkpoints.install(copies)
    run: Any = subprocess
    run.Popen.__init__ = _no_process
    os.system = _no_command
    builtins.input = getpass.getpass = _nobody
    _quiet_shell()
    sys.addaudithook(_Audit(copies))
    if sys.platform == "linux":
        devices = [path for name in _DEVICES for path in Path("/dev").glob(name)]
        allow_writing_only_in(folder, *devices)


class _Audit:
    """Refuses what would change something outside."""

    def __init__(self, copies: Copies) -> None:
        self._is_free = copies.is_free

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & WRITES and isinstance(path, (str, bytes)):
                self._check(event, path)
        elif event in _CHANGED:
            for place, folder in _CHANGED[event]:
                self._check(event, args[place], args[folder] if folder is not None else None)
        elif event in _RUNS:
            raise refused("start another process")
        elif event in ("os.kill", "os.killpg"):
            pid, number = args
            if number != 0 and pid not in (0, os.getpid()):
                raise refused(f"end process {pid}")
        elif event in _SENDS or event in _LOOKS_UP:
            note("The code wanted the network: a dry run has none.", NO_EFFECT)
            raise ConnectionRefusedError("A dry run has no network.")

    def _check(self, event: str, path: Any, folder: int | None = None) -> None:
        if not self._is_free(path, folder):
            name = "write" if event == "open" else event.removeprefix("os.")
            raise refused(f"{name} {short(path if isinstance(path, int) else os.fsdecode(path))}")


def _note_change(path: str, change: str) -> None:
    if change == "written":
        effect = "No effect, unless another program reads it."
        note(f"{short(path)} was not written: a dry run writes nothing.", effect)
    else:
        note(f"{change} of {short(path)} was not done: a dry run changes no files.", NO_EFFECT)


def _nobody(*_: Any, **__: Any) -> NoReturn:
    raise NobodyAnswersError(
        "The code waits for an input: nobody answers in a dry run. Ask in another cell, and use"
        " what it gave."
    )


def _no_process(self: Any, args: Any = "", *rest: Any, **options: Any) -> NoReturn:
    del self, rest, options
    words = args if isinstance(args, (str, bytes)) else " ".join(map(str, args))
    _no_command(words)
    raise NotRunError(
        f"The code wants to run {short(words)}: a dry run runs no commands. Run it in another cell."
    )


def _no_command(command: Any) -> int:
    note(f"{short(command)} was not run: a dry run runs no commands.", NO_EFFECT)
    return 0


def _quiet_shell() -> None:
    """``!command`` in a cell does nothing."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return

    def nothing(command: str, *_: Any, **__: Any) -> None:
        _no_command(command)

    def no_output(command: str, *_: Any, **__: Any) -> list[str]:
        _no_command(command)
        return []

    for name, stand_in in (("system", nothing), ("getoutput", no_output)):
        shell.__dict__[name] = stand_in
