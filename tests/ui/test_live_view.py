"""``%vram live`` in JupyterLab: it moves while another cell runs, and stops once nobody sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from support.browser import IN_FRONT, gpu_env, open_notebook, run_cell, wait_until, write_notebook
from support.fake_nvml import GIB, FakeNvml
from support.jupyter import JupyterServer

SETUP = """\
import os, time
from support.cuda_standin import install
gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])
from jupyter_vram.kernel import live_picture
live_picture.PING_S, live_picture.PATIENCE_S = 0.5, 4.0"""

TRAIN = """\
gpu.allocate("weights", 2 * 2**30)
while not os.path.exists("stop"):
    gpu.allocate("activations", 3 * 2**30)
    time.sleep(0.6)
    gpu.free("activations")
    time.sleep(0.6)"""

THREADS = """\
import json, threading
with open("threads.json", "w") as file:
    json.dump([thread.name for thread in threading.enumerate()], file)"""


def test_it_moves_while_a_cell_runs_and_stops_unseen(
    page: Page, tmp_path: Path, shot: Callable[[str], None]
) -> None:
    with (
        FakeNvml(tmp_path / "card", total_bytes=24 * GIB) as card,
        JupyterServer(tmp_path / "lab", env=gpu_env(card)) as server,
    ):
        write_notebook(server, "live.ipynb", SETUP, "%vram live", TRAIN, THREADS)
        open_notebook(page, server, "live.ipynb")
        run_cell(page, 0)
        run_cell(page, 1)
        output = page.locator(IN_FRONT).locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea")
        picture = output.get_by_role("img")
        expect(picture).to_be_visible(timeout=20_000)
        run_cell(page, 2, wait=False)
        expect(output).to_contain_text("cuda:0: allocated 5.00 GiB", timeout=20_000)
        expect(output).to_contain_text("cuda:0: allocated 2.00 GiB", timeout=20_000)
        page.wait_for_timeout(6_000)  # longer than it is patient: a busy kernel hears no answer
        curve = picture.locator("polyline").first
        before = curve.get_attribute("points")
        expect(curve).not_to_have_attribute("points", before or "", timeout=10_000)
        page.mouse.move(5, 5)
        shot("live")
        (server.root / "stop").touch()
        expect(page.locator(IN_FRONT).locator(".jp-InputPrompt").nth(2)).to_have_text(
            "[3]:", timeout=20_000
        )

        # It answers: the view is still there long after the kernel could hear it.
        page.wait_for_timeout(8_000)
        expect(output).not_to_contain_text("Stopped")

        # Its output is cleared: nothing answers any more, and the thread ends.
        page.locator(IN_FRONT).locator(".jp-CodeCell").nth(1).locator(".cm-content").click()
        page.keyboard.press("Control+a")
        page.keyboard.type("pass")
        run_cell(page, 1)

        def ended() -> bool:
            run_cell(page, 3)
            names = json.loads((server.root / "threads.json").read_text())
            return "jupyter-vram-live" not in names

        assert not ended()
        page.wait_for_timeout(5_000)
        wait_until(page, ended, "an end of the thread")
