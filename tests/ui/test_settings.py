"""The panel's settings, as a user finds them the next time that JupyterLab starts."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from support.browser import open_lab
from support.fake_nvml import FakeNvml
from support.jupyter import JupyterServer


def test_settings_count_from_the_start(gpu: FakeNvml, page: Page, tmp_path: Path) -> None:
    settings = {"jupyter-vram:panel": {"openOnStart": True, "unit": "GB", "side": "left"}}
    with JupyterServer(tmp_path / "lab", env=gpu.env(), settings=settings) as server:
        open_lab(page, server)
        panel = page.locator("#jupyter-vram-panel")
        expect(panel.locator(".jp-Vram-total")).to_contain_text("25.8 GB", timeout=30_000)
        tab = page.locator('.jp-SideBar.jp-mod-left li[data-id="jupyter-vram-panel"]')
        expect(tab).to_be_visible()
        expect(page.locator("#jupyter-vram-status")).to_contain_text("25.8 GB")

        # A device that is hidden in the settings goes at once, and something is said instead.
        device_id = server.get("jupyter-vram/api/v1/snapshot")["devices"][0]["id"]
        server.write_settings(
            "jupyter-vram:panel",
            {"openOnStart": True, "hiddenDevices": [device_id], "statusBar": "none"},
        )
        open_lab(page, server)
        expect(panel.locator(".jp-Vram-reason").first).to_be_visible(timeout=30_000)
        expect(panel.locator(".jp-Vram-card")).to_have_count(0)
        expect(page.locator("#jupyter-vram-status")).not_to_be_visible()
