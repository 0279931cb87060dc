"""The panel in a real browser: it lives, keeps its past, and finds its server again."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Response, expect

from support.browser import (
    holder,
    open_lab,
    open_notebook,
    open_panel,
    run_cell,
    write_notebook,
)
from support.fake_nvml import GIB, NOT_SUPPORTED, FakeNvml, FakeProcess
from support.jupyter import JupyterServer

POINTS = """() => {
  const chart = document.querySelector('#jupyter-vram-panel .js-plotly-plot');
  return chart && chart.data.length ? chart.data[0].x.length : 0;
}"""


@pytest.fixture
def panel_page(page: Page, lab: JupyterServer, gpu: FakeNvml) -> Iterator[Page]:
    """A page with a notebook and the panel open; the GPU is healthy again afterwards."""
    write_notebook(lab, "demo.ipynb", "6 * 7")
    open_notebook(page, lab, "demo.ipynb")
    open_panel(page)
    yield page
    gpu.restore()
    gpu.device(0).used_bytes = GIB // 2


def points(page: Page) -> int:
    return int(page.evaluate(POINTS))


def test_plotly_is_not_fetched_before_the_panel_is_shown(page: Page, lab: JupyterServer) -> None:
    sizes: list[int] = []

    def note(response: Response) -> None:
        if "/extensions/jupyter-vram/" in response.url:
            sizes.append(int(response.header_value("content-length") or 0))

    page.on("response", note)
    write_notebook(lab, "demo.ipynb", "6 * 7")
    open_notebook(page, lab, "demo.ipynb")
    # A development build is three times as large as what is installed from a wheel.
    assert 0 < sum(sizes) < 400_000
    open_panel(page)
    expect(page.locator("#jupyter-vram-panel .js-plotly-plot")).to_be_visible(timeout=20_000)
    assert sum(sizes) > 500_000


def test_points_arrive_and_figures_move(panel_page: Page, gpu: FakeNvml) -> None:
    page = panel_page
    page.wait_for_function(POINTS)
    before = points(page)
    page.wait_for_function(f"n => ({POINTS})() >= n + 3", arg=before, timeout=10_000)
    gpu.device(0).used_bytes = 20 * GIB
    gpu.set_processes(0, [FakeProcess(1, 4 * GIB)])
    panel = page.locator("#jupyter-vram-panel")
    expect(panel.locator(".jp-Vram-total")).to_have_text("20.0 / 24.0 GiB", timeout=5_000)
    # How full it is stands in words, not only in a colour.
    expect(panel.locator(".jp-Vram-level")).to_have_text("filling")
    expect(page.locator("#jupyter-vram-status")).to_contain_text("filling")
    gpu.set_processes(0, [])


def test_reload_and_second_tab_show_the_past_at_once(panel_page: Page, lab: JupyterServer) -> None:
    page = panel_page
    page.wait_for_function(f"() => ({POINTS})() >= 4", timeout=15_000)
    known = points(page)
    second = page.context.new_page()
    page.reload()
    open_lab(second, lab, "/tree/demo.ipynb")
    for other in (page, second):
        open_panel(other)
        other.wait_for_function(f"n => ({POINTS})() >= n", arg=known, timeout=3_000)
    second.close()


def test_killed_and_restarted_server_is_found_again(
    gpu: FakeNvml, page: Page, tmp_path: Path, shot: Callable[[str], None]
) -> None:
    with JupyterServer(tmp_path / "lab", env=gpu.env()) as server:
        open_lab(page, server)
        panel = open_panel(page)
        server.kill()
        notice = panel.locator(".jp-Vram-notice", has_text="The server is not answering")
        expect(notice).to_be_visible(timeout=15_000)
        expect(page.locator("#jupyter-vram-status")).to_contain_text("no figures")
        shot("server-gone")
        gpu.device(0).used_bytes = 7 * GIB
        server.start()
        expect(notice).to_be_hidden(timeout=30_000)
        expect(panel.locator(".jp-Vram-total")).to_have_text("7.0 / 24.0 GiB", timeout=10_000)
    gpu.device(0).used_bytes = GIB // 2


def test_lost_gpu_says_so_and_comes_back(
    panel_page: Page, gpu: FakeNvml, shot: Callable[[str], None]
) -> None:
    panel = panel_page.locator("#jupyter-vram-panel")
    gpu.lose(0)
    expect(panel).to_contain_text("lost", timeout=10_000)
    shot("gpu-lost")
    gpu.restore()
    expect(panel.locator(".jp-Vram-total")).to_have_text("0.50 / 24.0 GiB", timeout=10_000)


def test_hanging_driver_says_so(panel_page: Page, gpu: FakeNvml, lab: JupyterServer) -> None:
    panel = panel_page.locator("#jupyter-vram-panel")
    gpu.hang(10, "nvmlDeviceGetMemoryInfo_v2")
    expect(panel).to_contain_text("has not answered", timeout=15_000)
    lab.get("api/status", timeout_s=2)  # the server itself goes on
    gpu.restore()
    expect(panel.locator(".jp-Vram-notice")).to_have_count(0, timeout=15_000)


def test_dashboard_and_csv(panel_page: Page, tmp_path: Path, shot: Callable[[str], None]) -> None:
    page = panel_page
    page.get_by_role("button", name="Open the dashboard").click()
    dashboard = page.locator("#jupyter-vram-dashboard")
    expect(dashboard.locator(".js-plotly-plot")).to_be_visible(timeout=10_000)
    page.wait_for_timeout(1500)  # a few points for the picture
    shot("dashboard")
    with page.expect_download() as download:
        dashboard.get_by_role("button", name="Export CSV").click()
    download.value.save_as(tmp_path / "memory.csv")
    with (tmp_path / "memory.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    at_once = [row for row in rows if row["time"] == rows[-1]["time"]]
    assert sum(int(row["bytes"]) for row in at_once) == 24 * GIB
    with page.expect_download() as picture:
        dashboard.get_by_role("button", name="Export PNG").click()
    picture.value.save_as(tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


def test_commands_move_the_panel(panel_page: Page) -> None:
    page = panel_page
    side = page.locator('.jp-SideBar li[data-id="jupyter-vram-panel"]')
    for expected in ("left", "right"):
        page.keyboard.press("Control+Shift+c")
        page.locator(".lm-CommandPalette-input, .jp-ModalCommandPalette input").last.fill(
            "Move GPU Memory Panel"
        )
        page.keyboard.press("Enter")
        bar = page.locator(f'.jp-SideBar.jp-mod-{expected} li[data-id="jupyter-vram-panel"]')
        expect(bar).to_be_visible(timeout=10_000)
        expect(side).to_have_count(1)
        expect(page.locator("#jupyter-vram-panel")).to_be_visible()


def test_kernel_without_memory_on_the_gpu_says_why(panel_page: Page) -> None:
    panel = panel_page.locator("#jupyter-vram-panel")
    kernel = panel.locator(".jp-Vram-kernels tbody").filter(has_text="demo.ipynb").first
    expect(kernel).to_contain_text("torch is not imported in this kernel", timeout=10_000)
    expect(holder(panel, "This notebook")).to_have_text("0")


def test_each_missing_figure_says_why(page: Page, lab: JupyterServer, gpu: FakeNvml) -> None:
    write_notebook(
        lab,
        "reasons.ipynb",
        "import torch\nbuild, torch.version.cuda = torch.version.cuda, None",
        "torch.version.cuda = '13.0'",
        "torch.version.cuda = build\n%unload_ext jupyter_vram",
    )
    open_notebook(page, lab, "reasons.ipynb")
    panel = open_panel(page)
    kernel = panel.locator(".jp-Vram-kernels tbody").filter(has_text="reasons.ipynb").first
    for number, sentence in enumerate(
        (
            "a build without CUDA",
            "torch has not used CUDA in this kernel yet",
            "pip install jupyter-vram",
        )
    ):
        run_cell(page, number)
        expect(kernel).to_contain_text(sentence, timeout=10_000)

    gpu.fail("nvmlDeviceGetPowerUsage", NOT_SUPPORTED)
    card = panel.locator(".jp-Vram-card").first
    expect(card).to_contain_text("Power –: The driver does not measure", timeout=10_000)
    gpu.restore()
