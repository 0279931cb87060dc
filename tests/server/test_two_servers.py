"""Two servers of one machine, in processes of their own, watch the same GPU."""

from __future__ import annotations

import json
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.fake_nvml import FakeNvml, FakeProcess
from support.jupyter import BASE_URL, JupyterServer
from support.scripted_source import eventually

GIB = 1 << 30
SNAPSHOT = "jupyter-vram/api/v1/snapshot"

pytestmark = pytest.mark.timeout(240)


ENABLED = {"ServerApp": {"jpserver_extensions": {"jupyter_vram": True}}}


def with_extension(home: Path, nvml: FakeNvml) -> JupyterServer:
    """A server that loads the extension by its own configuration, installed as it may be."""
    server = JupyterServer(home, env=nvml.env())
    folder = home / "config"
    folder.mkdir()
    (folder / "jupyter_server_config.json").write_text(json.dumps(ENABLED))
    return server


def start_notebook(server: JupyterServer, path: str) -> str:
    """The id of the new notebook's kernel."""
    body = {"path": path, "type": "notebook", "name": "", "kernel": {"name": "python3"}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}{BASE_URL}api/sessions",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"token {server.token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return str(json.loads(response.read())["kernel"]["id"])


def kernel_of(server: JupyterServer, kernel_id: str) -> Any:
    views = server.get(SNAPSHOT)["kernels"]
    return next((view for view in views if view["kernel_id"] == kernel_id and view["pid"]), None)


def shared(server: JupyterServer, kernel_id: str) -> Any:
    """The device and the kernel, once the kernel holds something of it."""
    snapshot = server.get(SNAPSHOT)
    view = next(view for view in snapshot["kernels"] if view["kernel_id"] == kernel_id)
    return view["devices"] and (snapshot["devices"][0], view)


def test_each_names_its_own_and_counts_the_others_as_other(
    tmp_path: Path, fake_nvml: FakeNvml
) -> None:
    with (
        with_extension(tmp_path / "a", fake_nvml) as first,
        with_extension(tmp_path / "b", fake_nvml) as second,
    ):
        servers = (first, second)
        ids = [start_notebook(server, "mine.ipynb") for server in servers]
        pids = [
            eventually(partial(kernel_of, server, kernel_id), 60)["pid"]
            for server, kernel_id in zip(servers, ids, strict=True)
        ]
        fake_nvml.device(0).used_bytes = 7 * GIB
        sizes = (4 * GIB, 2 * GIB)
        fake_nvml.set_processes(
            0, [FakeProcess(pid, size) for pid, size in zip(pids, sizes, strict=True)]
        )
        for number, server in enumerate(servers):
            own, others = sizes[number], sizes[1 - number]
            device, view = eventually(partial(shared, server, ids[number]), 60)
            assert sum(view["devices"][0]["parts"].values()) == own
            assert device["other_bytes"] == others
            assert device["unattributed_bytes"] == GIB
            # Of the other server's there is a number and its bytes, and no word more.
            (foreign,) = (p for p in device["processes"] if p["owner"] == "other")
            assert foreign == {
                "pid": pids[1 - number],
                "used_bytes": others,
                "kernel_id": None,
                "owner": "other",
            }
