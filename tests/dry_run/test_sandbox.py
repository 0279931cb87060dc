"""In the sandbox, code writes as ever, and nothing outside changes."""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jupyter_vram.dry_run.forked import run_forked
from jupyter_vram.dry_run.landlock import allow_writing_only_in
from jupyter_vram.dry_run.process import Limits
from jupyter_vram.dry_run.sandbox import enter_sandbox, notes, scratch_folder
from jupyter_vram.errors import DryRunError
from support.children import emulated

LIMITS = Limits(timeout_s=30, memory_bytes=1 << 30)


def sandboxed(job: Callable[[], object]) -> tuple[object, list[str]]:
    """What `job` returns in a sandbox, and what was noted."""

    def run() -> bytes:
        enter_sandbox()
        result = job()
        return pickle.dumps((result, [note.text for note in notes()]))

    result, noted = pickle.loads(run_forked(run, LIMITS))
    return result, noted


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A folder that must stay as it is."""
    (tmp_path / "old.csv").write_text("a,b\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "1.txt").write_text("1")
    before = contents(tmp_path)
    yield tmp_path
    assert contents(tmp_path) == before


def test_what_is_written_can_be_read_again(data: Path) -> None:
    old, new = data / "old.csv", data / "new.json"

    def job() -> list[object]:
        with open(old, "a") as file:  # noqa: PTH123
            assert file.tell() == 4
            file.write("1,2\n")
        with new.open("x") as file:
            json.dump([1], file)
        with pytest.raises(FileExistsError):
            open(new, "x")  # noqa: PTH123, SIM115
        with (data / "runs" / "1.txt").open("r+") as file:
            file.seek(1)
            file.write("2")
        np.save(data / "array.npy", np.ones(3))
        return [
            json.loads(new.read_text()),
            old.read_text(),
            (data / "runs" / "1.txt").read_text(),
            np.load(data / "array.npy").tolist(),
            sorted(path.name for path in data.iterdir()),
            new.stat().st_size,
            os.path.exists(new),  # noqa: PTH110
        ]

    result, noted = sandboxed(job)
    files = ["array.npy", "new.json", "old.csv", "runs"]
    assert result == [[1], "a,b\n1,2\n", "12", [1, 1, 1], files, 3, True]
    assert any("new.json was not written" in text for text in noted)


def test_folders_and_files_come_and_go(data: Path) -> None:
    def job() -> list[object]:
        folder = data / "a" / "b"
        os.makedirs(folder)  # noqa: PTH103
        with pytest.raises(FileExistsError):
            folder.mkdir()
        with pytest.raises(FileNotFoundError):
            (data / "nowhere" / "file").open("w")
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            file.write("x")
        os.replace(file.name, folder / "final.txt")  # noqa: PTH105
        shutil.copy(data / "old.csv", folder / "copy.csv")
        shutil.move(folder / "copy.csv", data / "moved.csv")
        found: list[object] = [(folder / "final.txt").read_text(), sorted(os.listdir(folder))]  # noqa: PTH208
        found.append((data / "moved.csv").read_text())
        with tempfile.NamedTemporaryFile(dir=data) as temporary:
            temporary.write(b"x")
        with os.scandir(data) as entries:
            found.append(sorted(entry.name for entry in entries if entry.is_file()))
        found.append([str(path.relative_to(data)) for path in data.glob("a/**/*.txt")])
        os.symlink("final.txt", folder / "latest")  # noqa: PTH211
        found.append((folder / "latest").read_text())
        shutil.rmtree(data / "a")
        found.append(folder.exists())
        with pytest.raises(FileNotFoundError):
            (data / "not there").unlink()
        with tempfile.TemporaryDirectory() as scratch:
            Path(scratch, "file").write_text("x")
        found.append(Path(scratch).exists())
        # From the child's own folder to the outside.
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write("y")
        os.replace(file.name, data / "old.csv")  # noqa: PTH105
        return [*found, (data / "old.csv").read_text()]

    result, _ = sandboxed(job)
    assert result == [
        *("x", ["final.txt"], "a,b\n", ["moved.csv", "old.csv"], ["a/b/final.txt"]),
        *("x", False, False, "y"),
    ]


def test_what_was_there_stays(data: Path) -> None:
    def job() -> None:
        (data / "old.csv").rename(data / "other.csv")
        (data / "old.csv").unlink()
        (data / "old.csv").chmod(0o777)
        os.utime(data / "old.csv", (0, 0))
        os.truncate(data / "old.csv", 1)
        shutil.rmtree(data / "runs")

    mode = (data / "old.csv").stat().st_mode
    _, noted = sandboxed(job)
    assert (data / "old.csv").stat().st_mode == mode
    assert any(text.startswith("unlink of") for text in noted)


def test_functions_that_were_imported_before_are_refused(data: Path) -> None:
    # pytest's own names are bound before; a descriptor needs no path.
    remove, rename, os_open, open_before = os.remove, os.rename, os.open, open
    reading = os.open(data / "old.csv", os.O_RDONLY)

    def job() -> list[bool]:
        outside, own = data / "old.csv", Path(tempfile.mkdtemp())
        found = []
        for attempt in (
            lambda: remove(outside),
            lambda: rename(own, data / "new"),
            lambda: os_open(outside, os.O_RDWR),
            lambda: open_before(outside, "w"),
            lambda: os.mkdir("new", dir_fd=os.open(data, os.O_RDONLY)),
            lambda: os.fchmod(reading, 0o777),
            lambda: os.open("/dev/tty", os.O_RDWR),
        ):
            try:
                attempt()
            except (DryRunError, PermissionError) as error:  # noqa: PERF203
                found.append("changes nothing outside" in str(error))
        return found

    result, _ = sandboxed(job)
    os.close(reading)
    assert result == [True] * 7


def test_compiled_code_writes_nothing(data: Path) -> None:
    guarded = run_forked(lambda: bytes([allow_writing_only_in()]), LIMITS) == b"\1"
    if not guarded:
        pytest.skip("this Linux has no Landlock")
    library = ctypes.CDLL(None, use_errno=True)
    name = os.fsencode(data / "native")
    shared = f"/dev/shm/jupyter-vram-{os.getpid()}".encode()

    def job() -> list[int]:
        return [
            library.open(name, os.O_CREAT | os.O_RDWR, 0o600),
            library.open(shared, os.O_CREAT | os.O_RDWR, 0o600),
            library.unlink(os.fsencode(data / "old.csv")),
            library.open(b"/dev/null", os.O_RDWR) >= 0,
        ]

    result, _ = sandboxed(job)
    assert result == [-1, -1, -1, True]
    assert not Path(os.fsdecode(shared)).exists()


def test_checkpoints_come_back_without_their_values(data: Path) -> None:
    best = data / "best.pt"

    def job(_: object) -> Any:
        enter_sandbox()
        model: Any = torch.nn.Linear(1000, 1000).to("cuda")
        model.tied = model.weight
        torch.save({"model": model.state_dict(), "epoch": 3, "data": torch.arange(3)}, best)
        before = torch.cuda.memory_allocated()
        found = torch.load(best, map_location="cpu", weights_only=True)
        on_cpu = torch.cuda.memory_allocated() - before
        again = torch.load(best)
        on_gpu = torch.cuda.memory_allocated() - before
        model.load_state_dict(again["model"])
        weight = again["model"]["weight"]
        return (
            (on_cpu, str(found["model"]["weight"].device)),
            (on_gpu, str(weight.device), tuple(weight.shape)),
            (again["epoch"], again["data"].tolist()),
            weight.untyped_storage()._cdata == again["model"]["tied"].untyped_storage()._cdata,
        )

    size = 4 * (1000 * 1000 + 1000)
    on_cpu, on_gpu, values, shared = emulated(job)
    assert on_cpu == (0, "cpu")
    assert on_gpu[1:] == ("cuda:0", (1000, 1000))
    assert size <= on_gpu[0] < size + 2048
    assert values == (3, [0, 1, 2])
    assert shared


def test_no_network_and_no_processes() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    address = server.getsockname()
    ours, theirs = socket.socketpair()

    def job() -> list[str]:
        found = []
        for attempt in (
            lambda: socket.create_connection(address, 2),
            lambda: socket.getaddrinfo("example.org", 80),
            lambda: subprocess.run(["true"], check=True),
            os.fork,
            lambda: os.kill(os.getppid(), 9),
            lambda: theirs.sendall(b"to the parent"),
            lambda: input("name?"),
        ):
            try:
                attempt()
            except (DryRunError, OSError) as error:  # noqa: PERF203
                found.append(type(error).__name__)
        return [*found, str(os.system("false"))]

    with server, ours, theirs:
        result, noted = sandboxed(job)
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(10)
    assert result == [
        *("ConnectionRefusedError", "ConnectionRefusedError", "NotRunError", "RefusedError"),
        *("RefusedError", "OSError", "NobodyAnswersError", "0"),
    ]
    assert any(text.startswith("false was not run") for text in noted)


def test_much_is_printed() -> None:
    def job() -> int:
        for number in range(60_000):
            print(f"{number:100}")
        return os.fstat(1).st_size

    result, _ = sandboxed(job)
    assert isinstance(result, int)
    assert result < 5 << 20


def test_log_that_is_open_gets_nothing(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w", buffering=1) as log:
        log.write("before\n")
        sandboxed(lambda: log.write("during\n"))
        log.write("after\n")
    assert (tmp_path / "log").read_text() == "before\nafter\n"


def test_temporary_files_go_with_the_child() -> None:
    folder, _ = sandboxed(tempfile.mkdtemp)
    assert isinstance(folder, str)
    assert not Path(folder).exists()


def test_folder_of_a_child_whose_parent_was_killed() -> None:
    def job() -> bytes:
        left = scratch_folder(os.getpid())
        left.mkdir()
        (left / "old").touch()
        enter_sandbox()
        return str(os.listdir(left)).encode()  # noqa: PTH208

    assert run_forked(job, LIMITS) == b"[]"
