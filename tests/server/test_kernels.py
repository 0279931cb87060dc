"""Real kernels, started as the browser starts them, on the stand-in's GPUs."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import time
import zlib
from typing import Any

import pytest

from jupyter_vram.analysis.kernel_reasons import NO_PACKAGE, STALE
from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport
from jupyter_vram.sources.report_file import report_path, write_report
from support.fake_nvml import FakeNvml, FakeProcess
from support.streams import Notebook
from wire.schema import check

GIB = 1 << 30

pytestmark = pytest.mark.timeout(240)


def charge(nvml: FakeNvml, *charges: tuple[int, int]) -> None:
    nvml.device(0).used_bytes = sum(size for _, size in charges) + GIB
    nvml.set_processes(0, [FakeProcess(pid, size) for pid, size in charges])


async def no_kernel_left(get: Any) -> None:
    deadline = time.monotonic() + 30
    while (await get("snapshot"))["kernels"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


async def test_a_notebook_is_told_by_name_and_its_process_by_the_tree(
    start: Any, kernel_when: Any, get: Any, loaded_nvml: FakeNvml
) -> None:
    notebook = await start("work/train.ipynb")
    child = int(
        await notebook.run(
            "import subprocess, sys\n"
            "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            "print(p.pid)"
        )
    )
    try:
        charge(loaded_nvml, (notebook.pid, 2 * GIB), (child, GIB), (os.getppid(), 3 * GIB))
        view = await kernel_when(notebook, lambda v: v["devices"])
        (share,) = view["devices"]
        assert (view["name"], view["paths"]) == ("train.ipynb", ["work/train.ipynb"])
        assert share["process_bytes"] == 3 * GIB
        assert sum(share["parts"].values()) == 3 * GIB
        (device,) = (await get("snapshot"))["devices"]
        assert device["other_bytes"] == 3 * GIB
        owners = {p["pid"]: p["owner"] for p in device["processes"]}
        assert owners == {notebook.pid: "kernel", child: "kernel", os.getppid(): "other"}
    finally:
        await notebook.run("p.kill(); p.wait()")


@pytest.mark.parametrize("vram_config", [{"load_kernels": False}])
async def test_a_kernels_own_report_is_joined_by_the_devices_uuid(
    start: Any,
    kernel_when: Any,
    get: Any,
    loaded_nvml: FakeNvml,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUPYTER_VRAM_KERNEL", "0")  # the test writes the report
    notebook = await start("train.ipynb")
    await notebook.run("")
    await kernel_when(notebook, lambda v: v["reason"] == NO_PACKAGE)
    charge(loaded_nvml, (notebook.pid, 3 * GIB))
    own = AllocatorStats(
        device_id=loaded_nvml.device(0).uuid,
        ordinal=0,
        allocated_bytes=GIB,
        reserved_bytes=2 * GIB,
        peak_allocated_bytes=2 * GIB,
    )
    report = KernelReport(
        pid=notebook.pid,
        written_at=time.time(),
        period_s=3600,
        package_version="0",
        torch_state="cuda_initialized",
        devices=(own,),
    )
    write_report(report_path(notebook.manager.connection_file), report)
    view = await kernel_when(
        notebook, lambda v: v["devices"] and len(v["devices"][0]["parts"]) == 3
    )
    (share,) = view["devices"]
    assert share["parts"] == {"allocated": GIB, "reserved_free": GIB, "context": GIB}
    assert (share["peak_allocated_bytes"], view["stale"], view["reason"]) == (2 * GIB, False, None)
    # A driver that names processes without their memory (WSL 2, WDDM): the report stands alone.
    loaded_nvml.set_processes(0, [FakeProcess(notebook.pid, None)])
    view = await kernel_when(notebook, lambda v: "context" not in v["devices"][0]["parts"])
    assert view["devices"][0]["parts"] == {"allocated": GIB, "reserved_free": GIB}
    (device,) = (await get("snapshot"))["devices"]
    assert device["unattributed_bytes"] == 2 * GIB
    assert "WSL" in device["reasons"]["unattributed_bytes"]
    # And a report that is too old is shown, and marked.
    old = dataclasses.replace(report, written_at=time.time() - 10, period_s=0.5)
    write_report(report_path(notebook.manager.connection_file), old)
    view = await kernel_when(notebook, lambda v: v["stale"])
    assert view["reason"] == STALE
    assert view["report_age_s"] >= 10
    path = report_path(notebook.manager.connection_file)
    path.write_text("{}")
    view = await kernel_when(notebook, lambda v: "schema version" in (v["reason"] or ""))
    path.unlink()
    await kernel_when(notebook, lambda v: v["reason"] == NO_PACKAGE)


async def test_a_kernels_cells_are_in_the_snapshot_and_in_the_past(
    start: Any, kernel_when: Any, get: Any, loaded_nvml: FakeNvml
) -> None:
    notebook = await start("train.ipynb")
    await notebook.run("%load_ext jupyter_vram")
    charge(loaded_nvml, (notebook.pid, 2 * GIB))
    before = time.time()
    await notebook.run("pass")
    view = await kernel_when(
        notebook,
        lambda v: v["devices"] and any((c["ended_at"] or 0) > before for c in v["cells"]),
    )
    assert view["rss_bytes"] > 0
    assert view["torch_state"] == "not_imported"
    cell = view["cells"][-1]
    assert cell["started_at"] <= cell["ended_at"]
    assert cell["code_crc32"] == zlib.crc32(b"pass")
    assert isinstance(cell["rss_change_bytes"], int)
    assert cell["devices"] == []
    await notebook.call("api", "sessions", notebook.session_id, method="DELETE")
    await no_kernel_left(get)
    past = await get("history", device=loaded_nvml.device(0).uuid)
    check(past, "history")
    own = past["kernels"][notebook.kernel_id]
    assert (own["name"], own["ended"]) == ("train.ipynb", True)
    times = ("execution_count", "started_at", "ended_at")
    assert {name: cell[name] for name in times} in own["cells"]


async def test_names_follow_the_sessions(start: Any, kernel_when: Any) -> None:
    notebook = await start("first.ipynb")
    await kernel_when(notebook, lambda v: v["name"] == "first.ipynb")
    await notebook.call(
        "api", "sessions", notebook.session_id, method="PATCH", body={"path": "renamed.ipynb"}
    )
    await kernel_when(notebook, lambda v: v["name"] == "renamed.ipynb")
    await start("second.ipynb", kernel={"id": notebook.kernel_id, "name": None})
    view = await kernel_when(notebook, lambda v: len(v["paths"]) == 2)
    assert view["paths"] == ["renamed.ipynb", "second.ipynb"]


async def test_a_kernel_without_a_document(
    get: Any, jp_serverapp: Any, jp_fetch: Any, kernel_when: Any
) -> None:
    response = await jp_fetch("api", "kernels", method="POST", body="{}", request_timeout=120)
    kernel_id = json.loads(response.body)["id"]
    notebook = Notebook(jp_serverapp, jp_fetch, {"id": "", "kernel": {"id": kernel_id}})
    try:
        view = await kernel_when(notebook)
        assert view["name"] == f"kernel {kernel_id[:8]} (no notebook)"
        assert view["paths"] == []
    finally:
        await jp_serverapp.kernel_manager.shutdown_all(now=True)


async def test_a_restart_has_another_process_and_a_shutdown_none(
    start: Any, kernel_when: Any, get: Any, loaded_nvml: FakeNvml
) -> None:
    notebook = await start("a.ipynb")
    charge(loaded_nvml, (notebook.pid, 2 * GIB))
    await kernel_when(notebook, lambda v: v["devices"])
    old = notebook.pid
    await notebook.call("api", "kernels", notebook.kernel_id, "restart", method="POST")
    assert notebook.pid != old
    charge(loaded_nvml, (notebook.pid, GIB))
    view = await kernel_when(
        notebook, lambda v: v["devices"] and v["devices"][0]["process_bytes"] == GIB
    )
    assert view["pid"] == notebook.pid
    await notebook.call("api", "sessions", notebook.session_id, method="DELETE")
    await no_kernel_left(get)
