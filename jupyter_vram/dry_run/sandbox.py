"""Nothing of a dry run is written outside: files, sockets and processes are the real run's.

What a training cell writes as it goes (checkpoints, logs) has no effect, and the dry run goes on;
what would change something else is refused with an error that names it. Memory that several
processes share (a NumPy array mapped from a file in mode ``r+``) is the one thing that can't be
kept from being written; torch's own is never (`jupyter_vram.dry_run.mode`).
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_vram.dry_run.landlock import allow_writing_only_in
from jupyter_vram.errors import DryRunError
from jupyter_vram.model.estimate import Assumption

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    {
        *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod", "os.chown"),
        *("os.link", "os.symlink", "os.utime", "shutil.rmtree", "shutil.move", "os.kill"),
        *("os.killpg", "signal.pthread_kill"),
    }
)
"""Audited events whose first argument is what would change."""
_RUNS = frozenset({"os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn"})
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
    "MLFLOW_TRACKING_URI": "",
    "TOKENIZERS_PARALLELISM": "false",
}
_QUIET = ("mkdir", "rmdir", "remove", "unlink", "rename", "replace", "truncate", "utime", "chmod")
"""What training code does to files as it goes: it has no effect outside, and no error."""
"""Libraries that ask are told that there is no network."""

_NO_EFFECT = "No effect on memory."
_NO_CHANGE = "a dry run changes no files."
_notes: dict[Assumption, None] = {}


def notes() -> tuple[Assumption, ...]:
    """What the code wanted to do outside, and did not."""
    return tuple(_notes)


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
        folder.mkdir(mode=0o700)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    files = _Files(folder.resolve())
    files.hush()
    builtins.open = files.open
    io.open = files.open
    run: Any = subprocess
    run.Popen.__init__ = _no_process
    os.system = _no_command
    _quiet_shell()
    _skip_checkpoints()
    sys.addaudithook(files.audit)
    if sys.platform == "linux":
        allow_writing_only_in(folder, Path("/dev"))


class _Files:
    """Files that are opened for writing are somewhere else."""

    def __init__(self, folder: Path) -> None:
        """`folder`: where anything may be written."""
        self._folder = folder
        self._open = io.open
        self._allowed = False

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """`open`, which for writing gives a file that has no name, with the old content."""
        if isinstance(file, int) or not set(mode) & set("wax+") or self._is_free(file):
            return self._open(file, mode, *args, **kwargs)
        name = os.fspath(file)
        _note_unwritten(name)
        content = b""
        if not set(mode) & set("wx"):
            with suppress(OSError), self._open(name, "rb") as existing:
                content = existing.read()
        self._allowed = True
        try:
            stand_in = tempfile.TemporaryFile()  # noqa: SIM115 - handed out
        finally:
            self._allowed = False
        stand_in.write(content)
        stand_in.seek(0, os.SEEK_END if "a" in mode else os.SEEK_SET)
        descriptor = os.dup(stand_in.fileno())
        stand_in.close()
        # It is there already, and may be read: "r+" writes where the position is.
        kind = "r+" + "".join(letter for letter in mode if letter in "bt")
        return self._open(descriptor, kind, *args, **kwargs)

    def hush(self) -> None:
        """Changes to files outside do nothing."""
        for module, names in ((os, _QUIET), (shutil, ("rmtree", "move"))):
            for name in names:
                setattr(module, name, self._unless_outside(name, getattr(module, name)))

    def _unless_outside(self, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, int) or "dir_fd" in kwargs or self._is_free(path):
                return change(path, *args, **kwargs)
            _note(
                f"{name} of {_short(os.fsdecode(path))} was not done: {_NO_CHANGE}",
                _NO_EFFECT,
            )
            return None

        return changed

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Refuses what would change something outside."""
        if event == "open":
            path, _, flags = args
            if (
                isinstance(flags, int)
                and flags & _WRITES
                and not self._allowed
                and isinstance(path, (str, bytes, os.PathLike))
                and not self._is_free(path)
            ):
                raise _refused(f"write {_short(os.fsdecode(path))}")
        elif event in _CHANGES:
            what = args[0]
            if isinstance(what, (str, bytes, os.PathLike)) and self._is_free(what):
                return
            if event in ("os.kill", "signal.pthread_kill") and what == os.getpid():
                return
            raise _refused(f"{event.rpartition('.')[2]} {_short(str(what))}")
        elif event in _RUNS:
            raise _refused("start another process")
        elif event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"):
            _note("The code wanted the network: a dry run has none.", _NO_EFFECT)
            raise ConnectionRefusedError("A dry run has no network.")

    def _is_free(self, path: Any) -> bool:
        try:
            resolved = Path(os.path.realpath(os.fsdecode(path)))
        except (TypeError, ValueError):
            return False
        return resolved.is_relative_to(self._folder) or resolved == Path(os.devnull)


def _skip_checkpoints() -> None:
    """Those are written by compiled code, which opens its files itself."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        save = torch.save

        def save_nothing(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            if hasattr(f, "write"):
                save(obj, f, *args, **kwargs)
            else:
                _note_unwritten(os.fspath(f))

        torch.save = save_nothing
    tensors: Any = sys.modules.get("safetensors.torch")
    if tensors is not None:
        tensors.serialize_file = lambda _, filename, *__, **___: _note_unwritten(filename)


def _note_unwritten(name: Any) -> None:
    _note(
        f"{_short(os.fsdecode(name))} was not written: a dry run writes nothing.",
        "No effect, unless the code reads it again.",
    )


def _no_process(self: Any, args: Any = "", *rest: Any, **options: Any) -> None:
    del self, rest, options
    raise _refused(f"run {_short(str(args))}")


def _no_command(command: Any) -> int:
    _note(f"{_short(str(command))} was not run: a dry run runs no commands.", _NO_EFFECT)
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


def _refused(what: str) -> DryRunError:
    return DryRunError(
        f"The code wants to {what}: a dry run changes nothing outside its process. Do it in another"
        " cell."
    )


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"…{name[-60:]}"


def _note(text: str, effect: str) -> None:
    _notes[Assumption(text, effect)] = None


# --- what the child inherited --------------------------------------------------------------------


def cut_descriptors(keep: Collection[int]) -> None:
    """Files and sockets that this process shares with its parent since the fork: from now on its
    own. To read a file moves nothing of the parent's; to write to one has no effect."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        descriptor = int(name)
        if descriptor in keep:
            continue
        with suppress(OSError):
            _cut(descriptor)


def _cut(descriptor: int) -> None:
    kind = os.fstat(descriptor).st_mode
    target = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
    if stat.S_ISREG(kind) and not target.startswith("/memfd:"):
        _reopen(descriptor)
    elif stat.S_ISSOCK(kind) or stat.S_ISFIFO(kind):
        _replace(descriptor, os.open(os.devnull, os.O_RDWR))


def _reopen(descriptor: int) -> None:
    """The same file at the same place, for reading; written, it swallows everything."""
    import fcntl

    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    if access == os.O_WRONLY:
        _replace(descriptor, os.open(os.devnull, os.O_WRONLY))
        return
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    own = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    os.lseek(own, position, os.SEEK_SET)
    _replace(descriptor, own)


def _replace(descriptor: int, by: int) -> None:
    os.dup2(by, descriptor, inheritable=os.get_inheritable(descriptor))
    os.close(by)
