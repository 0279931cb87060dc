"""A real JupyterLab or Notebook in a process of its own, behind a token and a base URL."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

BASE_URL = "/team/vram/"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class JupyterServer:
    """Everything it writes is below `home`; its notebooks are in `root`.

    The port stays the same over `kill` and `start`, so that a page can find the server again.
    """

    def __init__(
        self,
        home: Path,
        *,
        app: Literal["lab", "notebook"] = "lab",
        env: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        python: str | Path = sys.executable,
    ) -> None:
        self.home = home
        self.root = home / "root"
        self.root.mkdir(parents=True)
        self.log = home / "server.log"
        self.app = app
        self.python = str(python)
        self.arguments = tuple(arguments)
        self.token = secrets.token_hex(16)
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.env = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(home / "config"),
            "JUPYTER_DATA_DIR": str(home / "data"),
            "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
            "IPYTHONDIR": str(home / "ipython"),
            "JUPYTER_TOKEN": self.token,
            **(env or {}),
        }
        given = settings or {}
        panel = "jupyter-vram:panel"
        for plugin, values in {
            "@jupyterlab/apputils-extension:notification": {
                "fetchNews": "false",
                "checkForUpdates": False,
            },
            **given,
            # `make lab` lets this environment's JupyterLab open the panel by itself.
            panel: {"openOnStart": False, **given.get(panel, {})},
        }.items():
            self.write_settings(plugin, values)

    def write_settings(self, plugin: str, values: Mapping[str, Any]) -> None:
        package, name = plugin.split(":")
        path = self.home / "settings" / package / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def start(self, timeout_s: float = 60) -> None:
        command = [
            *(self.python, "-m", "jupyterlab" if self.app == "lab" else "notebook"),
            *("--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"),
            *(f"--ServerApp.port={self.port}", "--ServerApp.port_retries=0"),
            *(f"--ServerApp.root_dir={self.root}", f"--ServerApp.base_url={BASE_URL}"),
            "--ServerApp.allow_unauthenticated_access=False",
            *self.arguments,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self.env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                self.get("api/status")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise AssertionError(f"the server did not start:\n{self.log.read_text()}")

    def get(self, path: str, timeout_s: float = 10) -> Any:
        """The JSON answer of a route below the base URL."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{BASE_URL}{path}",
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return json.loads(response.read())

    def page(self, path: str) -> str:
        """The address of a page, with the token."""
        joint = "&" if "?" in path else "?"
        return f"http://127.0.0.1:{self.port}{BASE_URL}{path}{joint}token={self.token}"

    def kill(self) -> None:
        """Without a word, as an out-of-memory killer does. Its kernels live on."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()  # shuts its kernels down, too
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> JupyterServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
