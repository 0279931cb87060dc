"""In a real browser: the panel's first opening, and JupyterLab's start with and without us."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.results import Result, median_interval
from benchmarks.server import process_cpu_s
from support.browser import BROWSERS, FLAGS
from support.fake_nvml import GIB, FakeNvml
from support.jupyter import JupyterServer

PANEL = "#jupyter-vram-panel"
TAB = '.jp-SideBar li[data-id="jupyter-vram-panel"]'
LAUNCHER = ".jp-LauncherCard"
PATIENCE_MS = 60_000
WITHOUT = {
    "page_config": '{"disabledExtensions": {"jupyter-vram": true}}',
    "server": "--ServerApp.jpserver_extensions=jupyter_vram=False",
}


def measure(folder: Path, *, quick: bool) -> tuple[list[Result], dict[str, Any]]:
    """The results, and every single time in seconds."""
    openings, starts, pages = (2, 2, 3) if quick else (7, 7, 12)
    with FakeNvml(folder / "nvml.state", devices=8, total_bytes=80 * GIB) as gpus, _browser() as it:
        for index in range(8):
            gpus.device(index).used_bytes = (5 + index) * GIB
        with_us = JupyterServer(folder / "with", env=gpus.env())
        without = JupyterServer(folder / "without", env=gpus.env(), arguments=(WITHOUT["server"],))
        labconfig = folder / "without" / "config" / "labconfig"
        labconfig.mkdir(parents=True)
        (labconfig / "page_config.json").write_text(WITHOUT["page_config"])
        servers = {"with": with_us, "without": without}
        server_s, server_cpu_s = _server_starts(servers, starts)
        with ExitStack() as stack:
            for server in servers.values():
                stack.enter_context(server)
            page_s = _page_starts(it, servers, pages)
            opening_s = [_first_opening(it, with_us) for _ in range(openings)]
    shown = [opening["shown"] for opening in opening_s]
    results = [
        Result(
            part="panel",
            name="visible after its first opening: cards",
            value=median(opening["cards"] for opening in opening_s),
            unit="s",
            goal=1,
            note="8 GPUs; median of new pages with nothing cached",
        ),
        Result(
            part="panel",
            name="visible after its first opening: chart drawn",
            value=median(shown),
            unit="s",
            goal=1,
            low=min(shown),
            high=max(shown),
            note="the spread is the least and the greatest",
        ),
        _slower("server answers", server_s),
        _slower("server has taken so much CPU till then", server_cpu_s, "more"),
        _slower("page is ready", page_s),
    ]
    return results, {
        "first_opening_s": opening_s,
        "server_start_s": server_s,
        "server_start_cpu_s": server_cpu_s,
        "page_start_s": page_s,
    }


def _slower(what: str, taken: dict[str, list[float]], how: str = "later") -> Result:
    differences = [
        1e3 * (ours - theirs) for ours, theirs in zip(taken["with"], taken["without"], strict=True)
    ]
    low, high = median_interval(differences)
    return Result(
        part="start-up",
        name=f"JupyterLab's {what}: {how} than without the extension",
        value=median(differences),
        unit="ms",
        goal=50,
        low=low,
        high=high,
        note=f"median of {len(differences)} pairs, 95 % interval; "
        f"without: {median(taken['without']):.2f} s",
    )


@contextmanager
def _browser() -> Iterator[Browser]:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def _server_starts(
    servers: dict[str, JupyterServer], count: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Seconds from the command to the first answer, by the clock and of CPU.

    In turn, each first every other time.
    """
    taken: dict[str, list[float]] = {name: [] for name in servers}
    cpu: dict[str, list[float]] = {name: [] for name in servers}
    for server in servers.values():  # the first start compiles modules
        server.start()
        server.stop()
    for name in _alternating(tuple(servers), count):
        began = time.perf_counter()
        servers[name].start()
        taken[name].append(time.perf_counter() - began)
        process = servers[name].process
        assert process is not None
        cpu[name].append(process_cpu_s(process.pid))
        servers[name].stop()
    return taken, cpu


def _page_starts(
    browser: Browser, servers: dict[str, JupyterServer], count: int
) -> dict[str, list[float]]:
    """Seconds until the launcher can be used, in new contexts: nothing is cached."""
    taken: dict[str, list[float]] = {name: [] for name in servers}
    for name in (*servers, *_alternating(tuple(servers), count)):
        with _page(browser) as page:
            began = time.perf_counter()
            _open_lab(page, servers[name])
            elapsed = time.perf_counter() - began
            if name == "with":
                page.wait_for_selector(TAB, timeout=PATIENCE_MS)
            elif page.locator(TAB).count():
                raise RuntimeError("our panel is in the JupyterLab that should be without it")
        taken[name].append(elapsed)
    return {name: times[1:] for name, times in taken.items()}  # the first one warms the server up


def _alternating(names: tuple[str, ...], count: int) -> Iterator[str]:
    for turn in range(count):
        yield from names if turn % 2 == 0 else reversed(names)


def _first_opening(browser: Browser, server: JupyterServer) -> dict[str, float]:
    """Seconds from the click, measured in the page, to the cards and to a drawn chart."""
    with _page(browser) as page:
        _open_lab(page, server)
        taken: dict[str, float] = page.evaluate(
            """([tab, panel]) => new Promise(resolve => {
                if (document.querySelector(`${panel} .jp-Vram-card`)?.offsetHeight)
                    throw new Error('the panel is open already');
                const began = performance.now();
                const since = () => (performance.now() - began) / 1000;
                let cards = null;
                const look = () => {
                    const card = document.querySelector(`${panel} .jp-Vram-card`);
                    if (cards === null && card && card.offsetHeight > 0) cards = since();
                    const drawn = document.querySelector(
                        `${panel} .js-plotly-plot .main-svg .trace, `
                        + `${panel} .js-plotly-plot .main-svg .scatterlayer path`);
                    if (cards !== null && drawn) resolve({cards, shown: since()});
                    else requestAnimationFrame(look);
                };
                const title = document.querySelector(tab);
                const box = title.getBoundingClientRect();
                const where = {bubbles: true, button: 0, cancelable: true,
                    clientX: box.x + box.width / 2, clientY: box.y + box.height / 2};
                for (const kind of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'])
                    title.dispatchEvent(new (kind.startsWith('pointer') ? PointerEvent
                        : MouseEvent)(kind, where));
                requestAnimationFrame(look);
            })""",
            [TAB, PANEL],
        )
        return taken


def _open_lab(page: Page, server: JupyterServer) -> None:
    page.goto(server.page(f"lab/workspaces/{secrets.token_hex(4)}"))
    page.wait_for_selector(LAUNCHER, timeout=PATIENCE_MS)
    page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=PATIENCE_MS)


@contextmanager
def _page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        yield page
    finally:
        context.close()
