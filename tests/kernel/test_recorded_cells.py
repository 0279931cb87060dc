"""``%%vram`` in real kernels: the report lands in its own cell, whatever way the cell ends."""

from __future__ import annotations

import queue
import time
from typing import Any

import pytest

from jupyter_vram.model.report_data import MIME_TYPE, ReportData
from jupyter_vram.model.report_json import from_json
from support.kernels import PATIENCE_S, Kernel, until

pytest.importorskip("torch")

SETUP = "import asyncio, time, torch\ndef tensor(mib): return torch.ones(mib * 2**18)"
MIB = 2**20


@pytest.fixture
def kernel(kernel: Kernel) -> Kernel:
    kernel.run(SETUP)
    return kernel


def of(outputs: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [output["content"] for output in outputs if output["msg_type"] == kind]


def report_in(outputs: list[dict[str, Any]]) -> ReportData:
    (data,) = (content["data"] for content in of(outputs, "display_data"))
    assert set(data) == {MIME_TYPE, "text/html", "text/plain"}
    return from_json(data[MIME_TYPE])


def lines_of(report: ReportData) -> dict[int, int]:
    return {
        line.number: round(max(line.peak_bytes, line.kept_bytes) / MIB)
        for line in report.source
        if max(line.peak_bytes, line.kept_bytes) > MIB // 2
    }


def outputs_until_idle(kernel: Kernel, request: str) -> list[dict[str, Any]]:
    """Of one request, and of no other."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            message = kernel.client.get_iopub_msg(timeout=1)
        except queue.Empty:
            continue
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "status":
            if message["content"]["execution_state"] == "idle":
                return found
            continue
        found.append(message)
    raise AssertionError("the cell did not end")


def interrupt_once_printed(kernel: Kernel, code: str) -> tuple[dict[str, Any], list[Any]]:
    request = kernel.send(code)
    found: list[dict[str, Any]] = []

    def printed() -> bool:
        try:
            message = kernel.client.get_iopub_msg(timeout=1)
        except queue.Empty:
            return False
        if message["parent_header"].get("msg_id") == request:
            found.append(message)
        return bool(of(found, "stream"))

    until(printed, "the cell's output")
    kernel.manager.interrupt_kernel()
    reply = kernel.wait(request)
    return reply, found + outputs_until_idle(kernel, request)


def test_the_report_follows_the_cells_own_output(kernel: Kernel) -> None:
    outputs = kernel.run("%%vram\nprint('hello')\na = tensor(3)\n6 * 7")
    kinds = [output["msg_type"] for output in outputs]
    assert kinds == ["execute_input", "stream", "execute_result", "display_data"]
    report = report_in(outputs)
    assert lines_of(report) == {3: 3}
    assert report.execution_count == of(outputs, "execute_input")[0]["execution_count"]
    # Neither a word of ours nor of torch's profiler.
    assert [content["name"] for content in of(outputs, "stream")] == ["stdout"]


def test_await(kernel: Kernel) -> None:
    outputs = kernel.run("%%vram\nawait asyncio.sleep(0.01)\na = tensor(3)\nawait asyncio.sleep(0)")
    assert lines_of(report_in(outputs)) == {3: 3}
    outputs = kernel.run(
        "%%vram\nimport asyncio\nasync def f():\n    return tensor(5)\nb = await f()"
    )
    assert lines_of(report_in(outputs)) == {4: 5}


def test_an_error(kernel: Kernel) -> None:
    request = kernel.send("%%vram\na = tensor(3)\n1 / 0")
    reply = kernel.wait(request)
    assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError")
    assert any("line 3" in line or "3 1" in line for line in reply["traceback"])
    outputs = outputs_until_idle(kernel, request)
    report = report_in(outputs)
    assert report.error == "ZeroDivisionError"
    assert lines_of(report) == {2: 3}


@pytest.mark.parametrize("wait", ["time.sleep(60)", "while True: await asyncio.sleep(0.05)"])
def test_an_interrupt(wait: str, kernel: Kernel) -> None:
    reply, outputs = interrupt_once_printed(kernel, f"%%vram\na = tensor(3)\nprint('now')\n{wait}")
    assert reply["status"] == "error"
    report = report_in(outputs)
    assert report.error in ("KeyboardInterrupt", "CancelledError")
    assert lines_of(report) == {2: 3}
    assert kernel.value("__import__('sys').gettrace() is None") is True
    assert lines_of(report_in(kernel.run("%%vram\na = tensor(2)"))) == {2: 2}


def test_each_of_two_cells_sent_at_once_gets_its_own(kernel: Kernel) -> None:
    first = kernel.send("%%vram\na = tensor(3)")
    second = kernel.send("%%vram\nimport time\nb = tensor(5)")
    assert lines_of(report_in(outputs_until_idle(kernel, first))) == {2: 3}
    assert lines_of(report_in(outputs_until_idle(kernel, second))) == {3: 5}


def test_a_cell_that_imports_torch_itself(kernels: Any) -> None:
    kernel = kernels.start()
    outputs = kernel.run("%%vram\nimport torch\na = torch.ones(3 * 2**18)")
    assert lines_of(report_in(outputs)) == {3: 3}
    assert of(outputs, "stream") == []


def test_earlier_cells_and_cells_with_the_same_text(kernel: Kernel) -> None:
    kernel.run("def make(mib):\n    return torch.ones(mib * 2**18)")
    code = "%%vram\na = make(3)"
    first, second = report_in(kernel.run(code)), report_in(kernel.run(code))
    for report in (first, second):
        assert lines_of(report) == {2: 3}
        assert any(row.name == "line 2 › In [2]:2" for row in report.by_line)
    assert second.execution_count == (first.execution_count or 0) + 1


def test_time_beneath(kernel: Kernel) -> None:
    outputs = kernel.run("%%vram\n%%time\na = tensor(3)\n\nb = tensor(5)\n42")
    assert lines_of(report_in(outputs)) == {3: 3, 5: 5}
    assert of(outputs, "execute_result")[0]["data"]["text/plain"] == "42"
    assert "Wall time" in of(outputs, "stream")[0]["text"]


def test_a_subshells_cell(kernel: Kernel) -> None:
    client = kernel.client

    def control(kind: str, **content: str) -> dict[str, Any]:
        message = client.session.msg(kind, content)
        client.control_channel.send(message)
        reply: dict[str, Any] = client.get_control_msg(timeout=PATIENCE_S)["content"]
        return reply

    if "kernel subshells" not in control("kernel_info_request").get("supported_features", []):
        pytest.skip("this ipykernel has no subshells")
    subshell = control("create_subshell_request")["subshell_id"]
    waiting = kernel.send("import threading; go = threading.Event(); go.wait(60)")
    content = {"code": "%%vram\na = tensor(3)\ngo.set()", "silent": False, "store_history": True}
    message = client.session.msg("execute_request", content)
    message["header"]["subshell_id"] = subshell
    client.shell_channel.send(message)
    outputs: list[dict[str, Any]] = []
    ends: set[str] = set()
    requests = {waiting, message["header"]["msg_id"]}

    def both_have_ended() -> bool:
        try:
            heard = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            return False
        parent = heard["parent_header"].get("msg_id")
        if heard["msg_type"] == "display_data":
            assert parent == message["header"]["msg_id"]
            outputs.append(heard)
        if heard["content"].get("execution_state") == "idle" and parent in requests:
            ends.add(parent)
        return ends == requests

    until(both_have_ended, "the end of both")
    assert lines_of(report_in(outputs)) == {2: 3}
    control("delete_subshell_request", subshell_id=subshell)
