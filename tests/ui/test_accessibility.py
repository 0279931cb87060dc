"""Everything is reachable by keyboard and named, in every theme; axe-core finds no violation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from support.browser import open_notebook, open_panel, write_notebook
from support.fake_nvml import FakeNvml
from support.jupyter import JupyterServer

THEMES = {
    "light": "JupyterLab Light",
    "dark": "JupyterLab Dark",
    "high-contrast": "JupyterLab Dark High Contrast",
}

FOCUSED = """() => {
  const focused = document.activeElement;
  return focused.getAttribute('aria-label') || focused.textContent;
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_themes_have_no_violations(
    theme: str, gpu: FakeNvml, page: Page, tmp_path: Path, shot: Callable[[str], None]
) -> None:
    settings = {"@jupyterlab/apputils-extension:themes": {"theme": THEMES[theme]}}
    with JupyterServer(tmp_path / "lab", env=gpu.env(), settings=settings) as server:
        write_notebook(server, "demo.ipynb", "6 * 7")
        open_notebook(page, server, "demo.ipynb")
        panel = open_panel(page)
        expect(panel.locator(".js-plotly-plot")).to_be_visible(timeout=20_000)
        panel.get_by_role("button", name="Open the dashboard").click()
        expect(page.locator("#jupyter-vram-dashboard .js-plotly-plot")).to_be_visible()
        panel.locator("summary", has_text="Past as a table").click()
        expect(panel.locator(".jp-Vram-past tbody tr").first).to_be_visible()
        for part in ("#jupyter-vram-panel", "#jupyter-vram-dashboard", "#jupyter-vram-status"):
            results = Axe().run(page, context=part)
            assert results.violations_count == 0, results.generate_report()
        shot(f"theme-{theme}")


def test_keyboard_reaches_every_control(page: Page, lab: JupyterServer) -> None:
    write_notebook(lab, "demo.ipynb", "6 * 7")
    open_notebook(page, lab, "demo.ipynb")
    panel = open_panel(page)
    expect(panel.get_by_role("button", name="Open demo.ipynb")).to_be_visible(timeout=10_000)
    panel.get_by_role("button", name="Open the dashboard").focus()
    reached = set()
    for _ in range(12):
        reached.add(page.evaluate(FOCUSED))
        page.keyboard.press("Tab")
    assert {"Open the dashboard", "Settings of the panel", "Open demo.ipynb"} <= reached

    # The text beside the chart has every figure of it.
    table = panel.locator(".jp-Vram-card table").first
    expect(table.locator("caption")).to_contain_text("Who holds what")
    expect(table).to_contain_text("free")

    # The dashboard opens by keyboard alone.
    panel.get_by_role("button", name="Open the dashboard").press("Enter")
    expect(page.locator("#jupyter-vram-dashboard")).to_be_visible()


def test_narrow_sidebar_loses_nothing(page: Page, lab: JupyterServer) -> None:
    write_notebook(lab, "a notebook with quite a long name.ipynb", "6 * 7")
    open_notebook(page, lab, "a notebook with quite a long name.ipynb")
    panel = open_panel(page)
    panel.evaluate("node => { node.style.width = '240px'; }")
    overflow = panel.evaluate("node => node.scrollWidth - node.clientWidth")
    assert overflow <= 0
