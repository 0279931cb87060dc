"""Notebook 7 has no status bar and one document to a page: panel and status item are there too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from support.browser import gpu_env, holder, open_notebook, run_cell, write_notebook
from support.fake_nvml import FakeNvml
from support.jupyter import JupyterServer

CODE = """\
import os
from support.cuda_standin import install
gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])
block = gpu.allocate("tensor", 2 * 2**30)"""


def test_notebook_7(gpu: FakeNvml, page: Page, tmp_path: Path, shot: Callable[[str], None]) -> None:
    with JupyterServer(tmp_path / "nb", app="notebook", env=gpu_env(gpu)) as server:
        write_notebook(server, "demo.ipynb", CODE)
        open_notebook(page, server, "demo.ipynb")
        status = page.locator("#jupyter-vram-status")
        expect(status).to_contain_text(re.compile(r"GPU 0 · .* / 24"), timeout=20_000)
        status.get_by_role("button").click()
        panel = page.locator("#jupyter-vram-panel")
        expect(panel.locator(".js-plotly-plot")).to_be_visible(timeout=20_000)
        run_cell(page, 0)
        expect(holder(panel, "allocated")).to_have_text("2.0", timeout=10_000)
        expect(panel.locator(".jp-Vram-own").first).to_contain_text("demo.ipynb")
        shot("notebook7")
