"""Which kernels there are, and what they are called."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from jupyter_vram.server.sessions import KernelSessions, kernel_names


def session(kernel_id: str, path: str, kind: str = "notebook", name: str = "") -> dict[str, Any]:
    return {"path": path, "type": kind, "name": name, "kernel": {"id": kernel_id}}


class Kernels:
    """The two managers of a server, as far as they are asked."""

    def __init__(self) -> None:
        self.managers: dict[str, Any] = {}
        self.sessions: list[dict[str, Any]] = []

    def add(self, kernel_id: str, pid: int | None = 10, language: str = "python") -> Any:
        provisioner = LocalProvisioner()
        provisioner.pid = pid
        self.managers[kernel_id] = SimpleNamespace(
            provisioner=provisioner,
            execution_state="idle",
            connection_file=f"/run/kernel-{kernel_id}.json",
            kernel_spec=SimpleNamespace(language=language),
        )
        return self.managers[kernel_id]

    def list_kernel_ids(self) -> list[str]:
        return list(self.managers)

    def get_kernel(self, kernel_id: str) -> Any:
        return self.managers[kernel_id]

    async def list_sessions(self) -> list[dict[str, Any]]:
        return self.sessions


@pytest.fixture
def kernels() -> Kernels:
    return Kernels()


@pytest.fixture
def known(kernels: Kernels) -> KernelSessions:
    return KernelSessions(kernels, kernels, lambda file: file.replace("/run/", "/reports/"))


async def test_a_kernel_with_its_notebook(kernels: Kernels, known: KernelSessions) -> None:
    kernels.add("k", pid=77)
    kernels.sessions = [session("k", "work/train.ipynb")]
    await known.refresh()
    (one,) = known.current()
    assert (one.pid, one.name, one.paths) == (77, "train.ipynb", ("work/train.ipynb",))
    assert (one.state, one.language) == ("idle", "python")
    assert one.report_path == "/reports/kernel-k.json"


async def test_state_and_process_are_read_each_time(
    kernels: Kernels, known: KernelSessions
) -> None:
    manager = kernels.add("k")
    await known.refresh()
    before = known.current()[0]
    assert known.current()[0] is before
    manager.execution_state = "busy"
    manager.provisioner.pid = 11  # a restart
    after = known.current()[0]
    assert (after.state, after.pid) == ("busy", 11)


async def test_a_kernel_that_runs_elsewhere_has_no_pid(
    kernels: Kernels, known: KernelSessions
) -> None:
    manager = kernels.add("k")
    manager.provisioner = SimpleNamespace(pid=12)  # a cluster's: 12 is a process of its machine
    await known.refresh()
    assert known.current()[0].pid is None
    manager.provisioner = None  # a gateway's
    manager.connection_file = ""
    await known.refresh()
    (one,) = known.current()
    assert (one.pid, one.language, one.report_path) == (None, None, None)


async def test_a_failing_list_keeps_the_last_one_and_is_logged_once(
    kernels: Kernels, known: KernelSessions, caplog: pytest.LogCaptureFixture
) -> None:
    kernels.add("k")
    await known.refresh()
    good, kernels.sessions = kernels.sessions, None  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR):
        await known.refresh()
        await known.refresh()
    assert len(known.current()) == 1
    assert len(caplog.records) == 1
    kernels.sessions = good
    kernels.managers.clear()
    await known.refresh()
    assert known.current() == ()


async def test_callers_at_once_share_one_look(kernels: Kernels, known: KernelSessions) -> None:
    assert known.refresh() is known.refresh()
    await known.refresh()
    assert known.age_s < 60


@pytest.mark.parametrize(
    ("sessions", "name"),
    [
        ([], "kernel 1a2b3c4d (no notebook)"),
        ([session("k", "a/b.ipynb")], "b.ipynb"),
        ([session("k", "RTC:a/b.ipynb")], "b.ipynb"),
        ([session("k", "console-2-9f8e", "console", "Console 2")], "console 2"),
        ([session("k", "a/console-1-9f8e", "console")], "console 1"),
        ([session("k", "odd", "console", "My console")], "My console"),
        ([session("k", "a/run.py", "file")], "run.py"),
        (
            [session("k", "console-1-9f8e", "console"), session("k", "x.ipynb")],
            "x.ipynb",
        ),
        ([session("k", "", "notebook", "Untitled")], "Untitled"),
    ],
)
def test_names_for_people(sessions: list[dict[str, Any]], name: str) -> None:
    assert kernel_names({"1a2b3c4d-5e6f": sessions}) == {"1a2b3c4d-5e6f": name}


def test_notebooks_of_one_name_are_told_apart_by_their_folders() -> None:
    names = kernel_names(
        {
            "k1": [session("k1", "a/train.ipynb")],
            "k2": [session("k2", "b/train.ipynb")],
            "k3": [session("k3", "c/eval.ipynb")],
        }
    )
    assert names == {"k1": "a/train.ipynb", "k2": "b/train.ipynb", "k3": "eval.ipynb"}
