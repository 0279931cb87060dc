"""The wheel works in every environment that the README claims: installed, served, shown."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from integrations.conftest import interpreter
from support.browser import gpu_env, run_cell, wait_until, write_notebook
from support.fake_nvml import GIB, FakeNvml
from support.jupyter import JupyterServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

MATRIX: list[tuple[str, Literal["lab", "notebook"], list[str]]] = [
    ("3.10", "lab", ["jupyterlab==4.2.*"]),
    ("3.11", "lab", ["jupyterlab>=4.6,<5", "torch==2.13.0", "numpy"]),
    ("3.11", "lab", ["jupyterlab>=4.6,<5", "torch==2.6.0", "numpy"]),
    ("3.12", "notebook", ["notebook==7.2.*"]),
    ("3.13", "lab", ["jupyterlab>=4.6,<5"]),
    ("3.13", "notebook", ["notebook>=7.4,<8"]),
]


@pytest.mark.parametrize(
    ("version", "app", "requirements"),
    MATRIX,
    ids=lambda value: "+".join(value) if isinstance(value, list) else str(value),
)
def test_panel_in_another_environment(
    version: str,
    app: Literal["lab", "notebook"],
    requirements: list[str],
    wheel: Path,
    tmp_path: Path,
    page: Page,
) -> None:
    env = tmp_path / "env"
    subprocess.run([interpreter(version), "-m", "venv", env], check=True)
    python = env / "bin/python"
    install = [python, "-m", "pip", "install", "-q", wheel, "ipykernel", *requirements]
    subprocess.run([str(part) for part in install], check=True)

    with (
        FakeNvml(tmp_path / "nvml", total_bytes=24 * GIB) as gpu,
        JupyterServer(tmp_path / "home", app=app, env=gpu_env(gpu), python=python) as server,
    ):
        name = write_notebook(server, "demo.ipynb", "%vram", "import torch")
        page.goto(server.page(f"{'lab/tree' if app == 'lab' else 'notebooks'}/{name}"))
        expect(page.locator(".jp-Notebook")).to_be_visible(timeout=60_000)
        kernel = wait_for_report(server)
        assert kernel["paths"] == [name]
        assert kernel["torch_state"] == "not_imported"
        page.locator(".jp-Notebook .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        expect(page.locator(".jp-OutputArea-output").first).to_contain_text("MiB", timeout=30_000)
        if any(requirement.startswith("torch") for requirement in requirements):
            # Without a GPU: a build without CUDA, or one that has never used it.
            run_cell(page, 1)
            states = {"no_cuda_build", "cuda_not_initialized"}
            wait_until(page, lambda: wait_for_report(server)["torch_state"] in states, "torch")


def wait_for_report(server: JupyterServer) -> Any:
    deadline = time.monotonic() + 60
    kernels: list[Any] = []
    while time.monotonic() < deadline:
        kernels = server.get("jupyter-vram/api/v1/snapshot")["kernels"]
        if kernels and kernels[0]["report_age_s"] is not None:
            return kernels[0]
        time.sleep(0.5)
    raise AssertionError(f"no kernel reported: {kernels}")
