"""A Jupyter Server with one extension and no other, as a process whose CPU time can be read."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from support.jupyter import free_port


class Server:
    """Everything it writes is below `home`."""

    def __init__(
        self, home: Path, *, python: Path, extension: str | None, env: Mapping[str, str]
    ) -> None:
        """`python` is the environment's that has the extension; ``None``: a bare server."""
        self.home = home
        self.port = free_port()
        self.token = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None
        self._python = python
        self._env = {
            **os.environ,
            **env,
            # So both environments load no extension but the one that is named.
            "JUPYTER_NO_CONFIG": "1",
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_TOKEN": self.token,
        }
        (home / "root").mkdir(parents=True)
        self._extension = extension

    def start(self, timeout_s: float = 60) -> float:
        """Start, and return the seconds until it answered.

        Raises:
            RuntimeError: it ended, or did not answer in time; with its log.
        """
        command = [
            *(str(self._python), "-m", "jupyter_server", "--no-browser", "--allow-root"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}"),
            *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.home / 'root'}"),
        ]
        if self._extension:
            command.append(f"--ServerApp.jpserver_extensions={self._extension}=True")
        log = self.home / "server.log"
        began = time.monotonic()
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command, env=self._env, stdout=output, stderr=subprocess.STDOUT
            )
        while time.monotonic() - began < timeout_s and self.process.poll() is None:
            if self._answers():
                return time.monotonic() - began
            time.sleep(0.02)
        self.stop()
        raise RuntimeError(f"the server did not start:\n{log.read_text()}")

    def _answers(self) -> bool:
        try:
            self.get("api/status")
        except OSError:
            return False
        return True

    def get(self, path: str) -> Any:
        """The JSON answer of a route."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/{path}",
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    def cpu_s(self) -> float:
        """Seconds of CPU that its threads have taken."""
        assert self.process is not None
        return process_cpu_s(self.process.pid)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            # A saturated event loop does not get to the signal.
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def process_cpu_s(pid: int) -> float:
    """Seconds of CPU that a process has taken, in nanoseconds' steps where the system tells."""
    try:
        # What clock_getcpuclockid(3) gives for a process; Python offers it for threads only.
        return time.clock_gettime((~pid << 3) | 2)
    except (OSError, AttributeError):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
