"""Where a kernel's report lies, how it is written, and how it is read.

The folder is the user's alone: what lies there is neither another user's nor a way to one. Reading
trusts nothing: the file is bounded, regular and the user's own, or it is not read.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_vram.errors import ReportError
from jupyter_vram.model.kernel_report import MAX_REPORT_BYTES, KernelReport

if TYPE_CHECKING:
    from jupyter_vram.model.snapshot import ReportReading

FOLDER = "jupyter-vram"
"""Beside the connection files. Not among them: `--existing` finds those by a pattern."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | getattr(os, "O_CLOEXEC", 0)
_HAS_DIR_FD = os.open in os.supports_dir_fd and os.rename in os.supports_dir_fd
_REMEMBERED = 1024


def report_path(connection_file: str | Path) -> Path:
    """The report's path of the kernel with this connection file."""
    connection = Path(connection_file)
    return connection.parent / FOLDER / f"{connection.stem}.json"


def write_report(path: Path, report: KernelReport) -> None:
    """Replace the report at `path` atomically. Makes its folder (0700), not that one's parents.

    Raises:
        ReportError: the folder is not the user's own, or the report is too large to be read.
        OSError: the disk is full, the runtime folder is gone, …
    """
    data = report.to_json()
    if len(data) > MAX_REPORT_BYTES:
        raise ReportError(f"The kernel's report has {len(data)} bytes, and is not written.")
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(mode=0o700)
    with _own_folder(path.parent) as folder:
        # One writer per process and kernel; a file of this name was left by one that was killed.
        temporary = f".{path.name}.{os.getpid()}.tmp"
        try:
            _write_new(_in(path.parent, temporary, folder), data, folder)
            os.replace(
                _in(path.parent, temporary, folder),
                _in(path.parent, path.name, folder),
                src_dir_fd=folder,
                dst_dir_fd=folder,
            )
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(_in(path.parent, temporary, folder), dir_fd=folder)
            raise


def remove_report(path: Path) -> None:
    """Remove a report, if it is there.

    Raises:
        ReportError: the folder is not the user's own.
        OSError: it can't be removed.
    """
    with contextlib.suppress(FileNotFoundError), _own_folder(path.parent) as folder:
        os.unlink(_in(path.parent, path.name, folder), dir_fd=folder)


def remove_orphans(folder: Path) -> None:
    """Remove the reports of killed kernels: those whose connection file is gone.

    Raises:
        ReportError: the folder is not the user's own.
        OSError: it can't be read.
    """
    with contextlib.suppress(FileNotFoundError), _own_folder(folder):
        kernels = {connection.stem for connection in folder.parent.iterdir()}
        for left in folder.iterdir():
            # "kernel-1.json", or what a kernel was writing when it was killed: ".kernel-1.json…"
            if left.name.lstrip(".").partition(".json")[0] not in kernels:
                left.unlink(missing_ok=True)


class ReportReader:
    """Reads reports, and parses each only once. Not thread safe: one reader per thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], ReportReading]] = {}

    def read(self, path: str | Path) -> ReportReading | None:
        """The report at `path`, or why it can't be had; ``None`` if there is no file.

        Never raises: trouble is a sentence in the reading.
        """
        key = os.fspath(path)
        try:
            file = os.open(key, _READ)
        except (OSError, ValueError) as error:
            self._known.pop(key, None)
            return _unopened(error)
        try:
            return self._read_open(key, file)
        except OSError as error:
            return _problem(f"The kernel's report can't be read ({_why(error)}).")
        finally:
            os.close(file)

    def _read_open(self, key: str, file: int) -> ReportReading:
        status = os.fstat(file)
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = self._known.get(key)
        if known is not None and known[0] == version:
            return known[1]
        reading = _read(file, status)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = (version, reading)
        return reading


def _read(file: int, status: os.stat_result) -> ReportReading:
    if not stat.S_ISREG(status.st_mode):
        return _problem("The kernel's report is not a regular file: it is not read.")
    if not _is_own(status):
        return _problem(
            "The kernel's report belongs to another user: it is not read."
            " Run the kernel as the user that runs the server."
        )
    # Reading one byte more tells a file that grew since from one that fits.
    with os.fdopen(file, "rb", closefd=False) as stream:
        data = stream.read(MAX_REPORT_BYTES + 1)
    if len(data) > MAX_REPORT_BYTES:
        return _problem(
            f"The kernel's report is larger than {MAX_REPORT_BYTES} bytes: it is not read."
        )
    try:
        return _reading(KernelReport.from_json(data))
    except ReportError as error:
        return _problem(str(error))


def _problem(sentence: str) -> ReportReading:
    return _reading(None, sentence)


def _reading(report: KernelReport | None, problem: str | None = None) -> ReportReading:
    # Imported here, since every kernel that starts imports this file, to write.
    from jupyter_vram.model.snapshot import ReportReading

    return ReportReading(report=report, problem=problem)


def _unopened(error: OSError | ValueError) -> ReportReading | None:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return None
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return _problem("The kernel's report is a symbolic link: it is not read.")
    return _problem(f"The kernel's report can't be read ({_why(error)}).")


@contextlib.contextmanager
def _own_folder(path: Path) -> Iterator[int | None]:
    """Hold the folder open, once it is known to be the user's; ``None`` where the OS can't."""
    if not _HAS_DIR_FD:
        yield None  # Windows: the user's profile is private by its access list
        return
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise ReportError(f"{path} is not a folder: remove it.") from error
        raise
    try:
        status = os.fstat(folder)
        if not _is_own(status):
            raise ReportError(f"{path} belongs to another user: remove it, or report elsewhere.")
        if stat.S_IMODE(status.st_mode) != 0o700:
            os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


def _write_new(name: str, data: bytes, folder: int | None) -> None:
    try:
        file = os.open(name, _CREATE, 0o600, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
        file = os.open(name, _CREATE, 0o600, dir_fd=folder)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)


def _in(parent: Path, name: str, folder: int | None) -> str:
    return name if folder is not None else str(parent / name)


def _is_own(status: os.stat_result) -> bool:
    return sys.platform == "win32" or status.st_uid == os.geteuid()


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
