"""A machine without a GPU is shown, plainly labelled; nothing is ever blank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.browser import holder, open_lab, open_notebook, open_panel, run_cell, write_notebook
from support.fake_nvml import DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, FakeNvml
from support.jupyter import JupyterServer


@pytest.fixture(scope="module")
def host_lab(no_gpu: FakeNvml, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    with JupyterServer(tmp_path_factory.mktemp("host"), env=no_gpu.env()) as server:
        yield server


def test_host_memory(page: Page, host_lab: JupyterServer, shot: Callable[[str], None]) -> None:
    write_notebook(host_lab, "eda.ipynb", "held = bytearray(b'x') * (600 * 2**20)")
    open_notebook(page, host_lab, "eda.ipynb")
    panel = open_panel(page)
    card = panel.locator(".jp-Vram-card")
    expect(card.locator("h3")).to_have_text("Host memory")
    expect(panel.locator(".jp-Vram-notices")).to_contain_text("No NVIDIA GPU")
    before = float(holder(panel, "This notebook").inner_text())
    run_cell(page, 0)
    expect(page.locator("#jupyter-vram-status")).to_contain_text("Host ·")
    page.wait_for_function(
        """least => Number(document.querySelector(
             '#jupyter-vram-panel .jp-Vram-own td').textContent) >= least""",
        arg=before + 0.5,
        timeout=10_000,
    )
    shot("host")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(DRIVER_NOT_LOADED, "driver is"), (LIB_RM_VERSION_MISMATCH, "Restart the machine")],
)
def test_each_trouble_has_its_sentence(
    page: Page, host_lab: JupyterServer, no_gpu: FakeNvml, code: int, sentence: str
) -> None:
    no_gpu.fail_init(code)
    open_lab(page, host_lab)
    panel = open_panel(page)
    expect(panel.locator(".jp-Vram-notices")).to_contain_text(sentence, timeout=15_000)
    no_gpu.fail_init(DRIVER_NOT_LOADED)


def test_gpu_that_comes_back_replaces_the_host(
    page: Page, host_lab: JupyterServer, no_gpu: FakeNvml
) -> None:
    open_lab(page, host_lab)
    panel = open_panel(page)
    no_gpu.device_count = 0
    no_gpu.restore()
    expect(panel.locator(".jp-Vram-notices")).to_contain_text("lists no GPU", timeout=10_000)
    no_gpu.device_count = 1
    expect(panel.locator("h3").first).to_have_text("GPU 0 · Test 24GB", timeout=5_000 + 3_000)
    expect(panel.locator(".jp-Vram-notice")).to_have_count(0)


def test_missing_server_extension_says_what_to_do(page: Page, tmp_path: Path) -> None:
    off = '--ServerApp.jpserver_extensions={"jupyter_vram": False}'
    with JupyterServer(tmp_path / "lab", arguments=[off]) as server:
        open_lab(page, server)
        page.locator('.jp-SideBar li[data-id="jupyter-vram-panel"]').click()
        notices = page.locator("#jupyter-vram-panel .jp-Vram-notices")
        expect(notices).to_contain_text("jupyter server extension enable", timeout=20_000)
