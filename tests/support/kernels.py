"""Real kernels, as Jupyter starts them, and their reports."""

from __future__ import annotations

import ast
import contextlib
import json
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from jupyter_vram.model.kernel_report import KernelReport
from jupyter_vram.sources.report_file import ReportReader, report_path

PATIENCE_S = 60.0


def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """The first true value of a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} has not come to pass")


class Kernel:
    """A running kernel, and its report."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.path = report_path(manager.connection_file)
        self.client: BlockingKernelClient
        self.connect()

    def connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def restart(self, *, now: bool = False) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=now)
        self.connect()

    def shut_down(self) -> None:
        """As a user does: the kernel ends by itself."""
        self.client.stop_channels()
        self.manager.shutdown_kernel()

    @property
    def pid(self) -> int:
        pid = self.manager.provisioner.pid  # type: ignore[union-attr]
        assert isinstance(pid, int)
        return pid

    def send(self, code: str, **request: Any) -> str:
        """Let a cell run, without waiting for it."""
        return str(self.client.execute(code, allow_stdin=False, **request))

    def wait(self, request: str) -> dict[str, Any]:
        """The reply to a request, once it has come."""

        def reply() -> Any:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_shell_msg(timeout=1)
                if message["parent_header"].get("msg_id") == request:
                    return message["content"]
            return None

        content = until(reply, "the reply")
        assert isinstance(content, dict)
        return content

    def run(self, code: str, **request: Any) -> list[dict[str, Any]]:
        """A cell's outputs, once it has ended without an error."""
        outputs: list[dict[str, Any]] = []
        reply = self.client.execute_interactive(
            code, timeout=PATIENCE_S, allow_stdin=False, output_hook=outputs.append, **request
        )
        assert reply["content"]["status"] == "ok", reply["content"]
        return [output for output in outputs if output["msg_type"] != "status"]

    def value(self, expression: str) -> Any:
        """An expression's value, by way of JSON; asked for without leaving a trace."""
        code = f"__import__('json').dumps({expression})"
        request = self.send("", silent=True, user_expressions={"value": code})
        answer = self.wait(request)["user_expressions"]["value"]
        assert answer["status"] == "ok", answer
        return json.loads(ast.literal_eval(answer["data"]["text/plain"]))

    def report(self) -> KernelReport | None:
        reading = ReportReader().read(self.path)
        if reading is None:
            return None
        assert reading.report is not None, reading.problem
        return reading.report

    def first_report(self) -> KernelReport:
        report = until(self.report, "the first report")
        assert isinstance(report, KernelReport)
        return report

    def until(self, condition: Callable[[KernelReport], object]) -> KernelReport:
        """The first report that meets a condition."""

        def met() -> KernelReport | None:
            report = self.report()
            return report if report is not None and condition(report) else None

        report = until(met, "a report that meets the condition")
        assert isinstance(report, KernelReport)
        return report


class Kernels:
    """Starts kernels; `env` is theirs."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = env
        self.started: list[Kernel] = []

    def start(self, **env: str) -> Kernel:
        manager = KernelManager(
            kernel_name="python3",
            connection_file=str(self.folder / "runtime" / f"kernel-{len(self.started)}.json"),
        )
        manager.start_kernel(env={**self.env, **env}, cwd=str(self.folder))
        kernel = Kernel(manager)
        self.started.append(kernel)
        return kernel

    def stop(self) -> None:
        for kernel in self.started:
            kernel.client.stop_channels()
            if kernel.manager.has_kernel:
                kernel.manager.shutdown_kernel(now=True)
