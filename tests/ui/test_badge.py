"""The badge at each executed cell, in JupyterLab and Notebook 7, with a GPU and without one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from support.browser import IN_FRONT, gpu_env, open_notebook, run_cell, wait_until, write_notebook
from support.fake_nvml import GIB, FakeNvml
from support.jupyter import JupyterServer

SETUP = """\
import os, time
from support.cuda_standin import install
gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])"""

STEP = """\
gpu.allocate("activations", 5 * 2**30)
gpu.allocate("weights", 2 * 2**30)
print("loss 0.31")
gpu.free("activations")"""

SAMPLED = """\
gpu.allocate("batch", 2**30)
gpu.free("batch")
gpu.allocate("batch", 2**30)
time.sleep(1.2)
gpu.free("batch")"""

GROW = """\
gpu.allocate(None, 2**30)
done = True"""


@pytest.fixture
def card(tmp_path: Path) -> Iterator[FakeNvml]:
    """A GPU of 24 GiB that only this test's kernels use."""
    with FakeNvml(tmp_path / "card", total_bytes=24 * GIB) as fake:
        yield fake


@pytest.fixture
def own_lab(card: FakeNvml, tmp_path: Path) -> Iterator[JupyterServer]:
    with JupyterServer(tmp_path / "own", env=gpu_env(card)) as server:
        yield server


def code_cell(page: Page, number: int) -> Locator:
    return page.locator(IN_FRONT).locator(".jp-CodeCell").nth(number)


def badge(page: Page, number: int) -> Locator:
    return code_cell(page, number).locator(".jp-VramBadge")


def saved(server: JupyterServer, name: str) -> str:
    return (server.root / name).read_text()


def test_what_a_cell_did_stands_at_it(
    page: Page, own_lab: JupyterServer, shot: Callable[[str], None]
) -> None:
    write_notebook(own_lab, "badge.ipynb", SETUP, STEP, "1 + 1", SAMPLED)
    open_notebook(page, own_lab, "badge.ipynb")
    run_cell(page, 0)
    before = code_cell(page, 1).bounding_box()
    for number in (1, 2, 3):
        run_cell(page, number)
    expect(badge(page, 3)).to_have_text("≥ 3.0 GiB peak", timeout=10_000)
    expect(badge(page, 1)).to_have_text("7.0 GiB peak · +2.0 GiB kept")
    expect(badge(page, 1)).to_have_attribute("title", re.compile(r"^GPU 0: allocated 2\.0 GiB"))
    expect(badge(page, 0)).to_have_count(0)
    expect(badge(page, 2)).to_have_count(0)
    page.mouse.move(5, 5)
    shot("badge")
    results = Axe().run(page, context=".jp-VramBadge")
    assert results.violations_count == 0, results.generate_report()

    # It takes no room: the cell is as tall as its input and its outputs, which grew it.
    after = code_cell(page, 1).bounding_box()
    assert before is not None
    assert after is not None
    height = "node => node.getBoundingClientRect().height"
    with_badge = code_cell(page, 1).evaluate(height)
    badge(page, 1).evaluate("node => { node.style.display = 'none'; }")
    assert code_cell(page, 1).evaluate(height) == with_badge
    badge(page, 1).evaluate("node => { node.style.display = ''; }")

    # Nothing of it is saved.
    page.keyboard.press("Control+s")
    wait_until(page, lambda: "loss 0.31" in saved(own_lab, "badge.ipynb"), "a saved notebook")
    assert not re.search(r"vram|peak", saved(own_lab, "badge.ipynb"), re.IGNORECASE)

    # A page that is loaded anew shows it again, since the kernel still tells of it.
    open_notebook(page, own_lab, "badge.ipynb")
    expect(badge(page, 1)).to_have_text("7.0 GiB peak · +2.0 GiB kept", timeout=20_000)

    # A restarted kernel knows nothing of the counts that the cells still show.
    code_cell(page, 2).locator(".cm-content").click()
    for key in ("Escape", "0", "0"):
        page.keyboard.press(key)
    page.locator(".jp-Dialog").get_by_role("button", name="Confirm Kernel Restart").click()
    expect(badge(page, 1)).to_have_count(0, timeout=20_000)
    expect(code_cell(page, 1).locator(".jp-InputPrompt")).to_have_text("[2]:")


def test_a_click_asks_and_runs_the_cell_recorded(
    page: Page, own_lab: JupyterServer, shot: Callable[[str], None]
) -> None:
    write_notebook(own_lab, "rerun.ipynb", SETUP, GROW)
    open_notebook(page, own_lab, "rerun.ipynb")
    run_cell(page, 0)
    run_cell(page, 1)
    expect(badge(page, 1)).to_be_visible(timeout=10_000)

    # Asked and declined, nothing happens.
    badge(page, 1).click()
    dialog = page.locator(".jp-Dialog")
    expect(dialog).to_contain_text("%%vram")
    shot("badge-dialog")
    dialog.get_by_role("button", name="Cancel").click()
    expect(code_cell(page, 1).locator(".jp-InputPrompt")).to_have_text("[2]:")

    # By the keyboard, as a user without a mouse does.
    badge(page, 1).focus()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Run Again").click()
    expect(code_cell(page, 1).locator(".jp-InputPrompt")).to_have_text("[3]:", timeout=10_000)
    expect(code_cell(page, 1).locator(".jp-VramReport")).to_be_visible(timeout=10_000)
    expect(code_cell(page, 1).locator(".cm-content")).not_to_contain_text("vram")
    expect(badge(page, 1)).to_have_text("2.0 GiB peak · +1.0 GiB kept", timeout=10_000)
    shot("badge-rerun")


def test_a_cell_scrolled_out_of_sight_has_it_when_it_is_back(
    page: Page, card: FakeNvml, tmp_path: Path
) -> None:
    settings = {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "full"}}
    with JupyterServer(tmp_path / "lab", env=gpu_env(card), settings=settings) as server:
        fill = ["\n".join(f"x{line} = {line}" for line in range(30))] * 40
        write_notebook(server, "long.ipynb", SETUP, STEP, *fill)
        open_notebook(page, server, "long.ipynb")
        run_cell(page, 0)
        run_cell(page, 1)
        expect(badge(page, 1)).to_be_visible(timeout=10_000)
        # The active cell would stay in the page.
        code_cell(page, 3).locator(".cm-content").click()
        first = page.locator(IN_FRONT).locator(".jp-VramBadge")
        page.locator(".jp-WindowedPanel-outer").evaluate("node => { node.scrollTop = 12000; }")
        expect(first).to_have_count(0, timeout=10_000)
        page.locator(".jp-WindowedPanel-outer").evaluate("node => { node.scrollTop = 0; }")
        expect(first).to_have_text("7.0 GiB peak · +2.0 GiB kept", timeout=10_000)


def test_dark_and_without_a_status_bar(
    page: Page, card: FakeNvml, tmp_path: Path, shot: Callable[[str], None]
) -> None:
    settings = {
        "@jupyterlab/apputils-extension:themes": {"theme": "JupyterLab Dark"},
        "jupyter-vram:panel": {"statusBar": "none"},
    }
    with JupyterServer(tmp_path / "lab", env=gpu_env(card), settings=settings) as server:
        write_notebook(server, "dark.ipynb", SETUP, STEP)
        open_notebook(page, server, "dark.ipynb")
        run_cell(page, 0)
        # The stream has long been closed again.
        page.wait_for_timeout(16_000)
        run_cell(page, 1)
        expect(badge(page, 1)).to_have_text("7.0 GiB peak · +2.0 GiB kept", timeout=10_000)
        page.mouse.move(5, 5)
        shot("badge-dark")
        results = Axe().run(page, context=".jp-VramBadge")
        assert results.violations_count == 0, results.generate_report()


def test_turned_off(page: Page, card: FakeNvml, tmp_path: Path) -> None:
    settings = {"jupyter-vram:panel": {"cellBadge": False}}
    with JupyterServer(tmp_path / "lab", env=gpu_env(card), settings=settings) as server:
        write_notebook(server, "off.ipynb", SETUP, STEP)
        open_notebook(page, server, "off.ipynb")
        run_cell(page, 0)
        run_cell(page, 1)

        def has_memory() -> bool:
            return "peak_exact" in json.dumps(server.get("jupyter-vram/api/v1/snapshot"))

        wait_until(page, has_memory, "a run's memory")
        page.wait_for_timeout(2_000)
        expect(badge(page, 1)).to_have_count(0)


def test_notebook_7(
    page: Page, card: FakeNvml, tmp_path: Path, shot: Callable[[str], None]
) -> None:
    with JupyterServer(tmp_path / "nb", app="notebook", env=gpu_env(card)) as server:
        write_notebook(server, "seven.ipynb", SETUP, STEP)
        open_notebook(page, server, "seven.ipynb")
        run_cell(page, 0)
        run_cell(page, 1)
        expect(badge(page, 1)).to_have_text("7.0 GiB peak · +2.0 GiB kept", timeout=10_000)
        shot("badge-notebook7")


@pytest.fixture
def host_lab(no_gpu: FakeNvml, tmp_path: Path) -> Iterator[JupyterServer]:
    with JupyterServer(tmp_path / "host", env=no_gpu.env()) as server:
        yield server


def test_without_a_gpu_it_tells_of_resident_memory(
    page: Page, host_lab: JupyterServer, shot: Callable[[str], None]
) -> None:
    write_notebook(host_lab, "eda.ipynb", "held = bytearray(b'x') * (600 * 2**20)", "small = 1")
    open_notebook(page, host_lab, "eda.ipynb")
    run_cell(page, 0)
    run_cell(page, 1)
    expect(badge(page, 0)).to_have_text(re.compile(r"^\+60\d MiB resident$"), timeout=10_000)
    expect(badge(page, 1)).to_have_count(0)
    shot("badge-host")
