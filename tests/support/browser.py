"""Fixtures around real Chromium and real servers, for the conftest files of browser tests."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from support.fake_nvml import FakeNvml
from support.jupyter import JupyterServer

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
IN_FRONT = ".jp-NotebookPanel:not(.lm-mod-hidden)"
SHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"


# pytest-jupyter's two automatic fixtures are turned off here: its event loop and the one that
# Playwright's synchronous API keeps running can't be mixed.
@pytest.fixture(autouse=True)
def jp_asyncio_loop() -> None:
    return


@pytest.fixture(autouse=True)
def jp_server_cleanup() -> None:
    return


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    own = {"executable_path": found} if found else {}
    return {**browser_type_launch_args, **own, "args": list(FLAGS)}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict[str, Any]) -> dict[str, Any]:
    return {**browser_context_args, "viewport": {"width": 1400, "height": 900}}


@pytest.fixture
def shot(page: Page) -> Callable[[str], None]:
    """Keep a screenshot in ``build/screenshots``."""
    SHOTS.mkdir(parents=True, exist_ok=True)

    def take(name: str) -> None:
        page.screenshot(path=SHOTS / f"{name}.png")

    return take


def gpu_env(gpu: FakeNvml) -> dict[str, str]:
    """For a server on a machine with that GPU, whose kernels can import `support`."""
    tests = str(Path(__file__).resolve().parents[1])
    return {**gpu.env(), "PYTHONPATH": tests, "FAKE_NVML_STATE_FOR_KERNELS": str(gpu.path)}


def write_notebook(server: JupyterServer, name: str, *cells: str) -> str:
    notebook = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
    )
    nbformat.write(notebook, server.root / name)
    return name


def open_notebook(page: Page, server: JupyterServer, name: str) -> None:
    """Show a notebook, and wait until its kernel is ready."""
    if server.app == "lab":
        open_lab(page, server, f"/tree/{name}")
    else:
        page.goto(server.page(f"notebooks/{name}"))
    expect(page.locator(".jp-Notebook")).to_be_visible(timeout=60_000)
    wait_until(page, lambda: kernel_state(server, name) == "idle", f"an idle kernel of {name}")


def kernel_state(server: JupyterServer, path: str) -> str | None:
    """The execution state of a notebook's kernel, as the server has it."""
    for session in server.get("api/sessions"):
        if session["path"] == path:
            return str(session["kernel"]["execution_state"])
    return None


def wait_until(page: Page, holds: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Poll a condition that is not one of the page's."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"still without {what}"
        page.wait_for_timeout(100)


def open_lab(page: Page, server: JupyterServer, path: str = "") -> None:
    """Show JupyterLab in a workspace of its own: nothing is restored from an earlier page."""
    page.goto(server.page(f"lab/workspaces/{secrets.token_hex(4)}{path}"))


def open_panel(page: Page) -> Locator:
    """Show the sidebar's panel with its figures, by a click on its tab."""
    expect(page.locator('.jp-SideBar li[data-id="jupyter-vram-panel"]')).to_be_visible(
        timeout=60_000
    )
    # The layout is restored before the splash goes: a click before would be undone.
    expect(page.locator("#jupyterlab-splash")).to_have_count(0, timeout=30_000)
    panel = page.locator("#jupyter-vram-panel")
    if not panel.is_visible():
        page.locator('.jp-SideBar li[data-id="jupyter-vram-panel"]').click()
    expect(panel.locator(".jp-Vram-card").first).to_be_visible(timeout=20_000)
    return panel


def run_cell(page: Page, number: int, *, wait: bool = True) -> None:
    """Run the cell at a position (from 0) of the notebook in front, and wait for its end."""
    notebook = page.locator(IN_FRONT)
    cell = notebook.locator(".jp-CodeCell").nth(number)
    prompt = cell.locator(".jp-InputPrompt")
    before = prompt.inner_text()
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(before, timeout=10_000)
    if wait:
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=60_000)


def holder(panel: Locator, name: str) -> Locator:
    """The figure of a row in the first device's table, in GiB: "7.5"."""
    row = panel.locator(".jp-Vram-card").first.locator(".jp-Vram-owners tr")
    named = row.filter(has=panel.page.locator("th", has_text=name)).first
    return named.locator("td")
