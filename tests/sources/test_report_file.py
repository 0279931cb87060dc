"""The report file: written atomically and privately, read with no trust."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from jupyter_vram.errors import ReportError
from jupyter_vram.model.kernel_report import MAX_REPORT_BYTES, KernelReport
from jupyter_vram.sources import report_file
from jupyter_vram.sources.report_file import (
    ReportReader,
    remove_orphans,
    remove_report,
    report_path,
    write_report,
)

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


def report(pid: int = 1, **fields: object) -> KernelReport:
    values = {"written_at": 10.0, "period_s": 0.5, "package_version": "1", **fields}
    return KernelReport(pid=pid, **values)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return report_path(tmp_path / "kernel-1a2b.json")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def problem(path: Path) -> str:
    reading = ReportReader().read(path)
    assert reading is not None
    assert reading.report is None
    assert reading.problem is not None
    return reading.problem


def test_a_report_lies_beside_the_connection_file_in_a_folder_of_its_own() -> None:
    assert report_path("/run/kernel-1.json") == Path("/run/jupyter-vram/kernel-1.json")


def test_what_is_written_is_read(path: Path) -> None:
    write_report(path, report(7))
    reading = ReportReader().read(str(path))
    assert reading is not None
    assert reading.report == report(7)
    assert reading.problem is None


def test_folder_and_file_are_private_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        write_report(path, report())
    finally:
        os.umask(before)
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)


def test_a_folder_that_others_may_enter_is_closed(path: Path) -> None:
    path.parent.mkdir(mode=0o755)
    write_report(path, report())
    assert mode(path.parent) == 0o700


def test_nothing_is_left_but_the_report(path: Path) -> None:
    for pid in range(3):
        write_report(path, report(pid))
    assert list(path.parent.iterdir()) == [path]


def test_a_reader_never_sees_half_a_report(path: Path) -> None:
    write_report(path, report(0))
    done = threading.Event()

    def write() -> None:
        for pid in range(300):
            write_report(path, report(pid, torch_version="x" * (pid * 37 % 5000)))
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reader = ReportReader()
    while not done.is_set():
        reading = reader.read(path)
        assert reading is not None
        assert reading.report is not None, reading.problem
    writer.join()


def test_a_link_planted_for_the_report_is_replaced_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.parent.mkdir(mode=0o700)
    path.symlink_to(victim)
    write_report(path, report())
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_a_link_planted_for_the_temporary_file_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.parent.mkdir(mode=0o700)
    (path.parent / f".{path.name}.{os.getpid()}.tmp").symlink_to(victim)
    write_report(path, report())
    assert victim.read_text() == "precious"
    assert list(path.parent.iterdir()) == [path]


def test_a_link_planted_for_the_folder_is_refused(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path.parent.symlink_to(elsewhere)
    with pytest.raises(ReportError, match="not a folder"):
        write_report(path, report())
    with pytest.raises(ReportError, match="not a folder"):
        remove_report(path)
    assert list(elsewhere.iterdir()) == []


@AS_ROOT
def test_another_users_folder_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o777)
    os.chown(path.parent, 65534, 65534)
    with pytest.raises(ReportError, match="another user"):
        write_report(path, report())
    assert list(path.parent.iterdir()) == []


def test_a_folder_is_made_but_not_its_parents(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_report(report_path(tmp_path / "gone" / "kernel-1.json"), report())
    assert not (tmp_path / "gone").exists()


def test_a_report_too_large_to_be_read_is_not_written(path: Path) -> None:
    with pytest.raises(ReportError, match="bytes"):
        write_report(path, report(problem="x" * MAX_REPORT_BYTES))
    assert not path.exists()


def test_a_failed_write_keeps_the_last_report_and_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_report(path, report(1))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_report(path, report(2))
    reading = ReportReader().read(path)
    assert reading is not None
    assert reading.report == report(1)
    assert list(path.parent.iterdir()) == [path]


def test_without_folder_handles_it_works_by_path(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_file, "_HAS_DIR_FD", False)  # as on Windows
    write_report(path, report(3))
    write_report(path, report(4))
    reading = ReportReader().read(path)
    assert reading is not None
    assert reading.report == report(4)
    remove_report(path)
    assert list(path.parent.iterdir()) == []


def test_removing_twice_or_from_no_folder_is_fine(path: Path) -> None:
    remove_report(path)
    write_report(path, report())
    remove_report(path)
    remove_report(path)
    assert ReportReader().read(path) is None


def test_no_file_is_no_reading(path: Path, tmp_path: Path) -> None:
    assert ReportReader().read(path) is None
    (tmp_path / "plain").touch()
    assert ReportReader().read(tmp_path / "plain" / "k.json") is None


def test_an_unchanged_report_is_parsed_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(path, report(1))
    reader = ReportReader()
    first = reader.read(path)
    with monkeypatch.context() as patch:
        patch.setattr(KernelReport, "from_json", None)
        assert reader.read(path) is first
    write_report(path, report(2))
    second = reader.read(path)
    assert second is not None
    assert second.report == report(2)
    remove_report(path)
    assert reader.read(path) is None
    assert reader._known == {}


def test_a_reader_remembers_a_bounded_number(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_file, "_REMEMBERED", 3)
    reader = ReportReader()
    for number in range(10):
        one = path.with_name(f"{number}.json")
        write_report(one, report(number))
        reader.read(one)
    assert len(reader._known) <= 3


def test_a_large_file_is_not_read(path: Path) -> None:
    write_report(path, report())
    path.write_bytes(b" " * (MAX_REPORT_BYTES + 1))
    assert "larger than" in problem(path)


def test_a_bad_report_says_so(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{")
    assert "not JSON" in problem(path)


@pytest.mark.timeout(20)
def test_a_pipe_is_refused_and_holds_nobody_up(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)
    assert "not a regular file" in problem(path)


def test_a_link_is_refused(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(report().to_json())
    path.parent.mkdir()
    path.symlink_to(secret)
    assert "symbolic link" in problem(path)


def test_a_folder_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    assert "not a regular file" in problem(path)


@AS_ROOT
def test_another_users_report_is_refused(path: Path) -> None:
    write_report(path, report())
    os.chown(path, 65534, 65534)
    assert "another user" in problem(path)


def test_a_path_that_is_none_is_a_problem_not_an_error() -> None:
    assert "null" in problem(Path("\0"))


def test_reports_of_killed_kernels_are_orphans(path: Path, tmp_path: Path) -> None:
    connection_file = tmp_path / "kernel-1a2b.json"
    connection_file.touch()
    write_report(path, report())
    killed = report_path(tmp_path / "kernel-killed.json")
    write_report(killed, report())
    half_written = path.with_name(f".{killed.name}.77.tmp")
    half_written.touch()
    remove_orphans(path.parent)
    assert list(path.parent.iterdir()) == [path]
    connection_file.unlink()
    remove_orphans(path.parent)
    assert list(path.parent.iterdir()) == []


def test_a_connection_file_of_another_ending_keeps_its_report(path: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel-1a2b.conf").touch()
    write_report(path, report())
    remove_orphans(path.parent)
    assert path.exists()


def test_no_folder_holds_no_orphans(path: Path) -> None:
    remove_orphans(path.parent)
    assert not path.parent.exists()


def test_orphans_in_a_planted_folder_are_let_be(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious.json").touch()
    path.parent.symlink_to(elsewhere)
    with pytest.raises(ReportError, match="not a folder"):
        remove_orphans(path.parent)
    assert (elsewhere / "precious.json").exists()
