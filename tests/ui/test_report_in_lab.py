"""A cell's report in a real browser: drawn from what a notebook saved, in Lab and in Notebook 7.

The notebooks are written here and signed by nobody: Lab does not trust them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Dialog, Error, Locator, Page, Response, expect

from jupyter_vram.model.report_data import MIME_TYPE
from support.browser import gpu_env, open_notebook, write_notebook
from support.fake_nvml import FakeNvml
from support.jupyter import JupyterServer

EXAMPLES = Path(__file__).resolve().parents[1] / "reports"
# Beside a report: the sidebar, the margins of the notebook, its prompts.
WIDTH_BESIDE = 432
OURS = "/extensions/jupyter-vram/"
FOCUSED = "() => document.querySelector('.jp-Notebook').contains(document.activeElement)"
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")


def example(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def write_reports(server: JupyterServer, name: str, *reports: object) -> str:
    """A notebook whose saved outputs hold these reports, with HTML and text beside them."""
    write_notebook(server, name, *("%%vram\nstep()" for _ in reports))
    path = server.root / name
    notebook = nbformat.read(path, as_version=4)
    for cell, report in zip(notebook.cells, reports, strict=True):
        bundle = {MIME_TYPE: report, "text/html": "<b>static</b>", "text/plain": "plain"}
        cell.outputs = [nbformat.v4.new_output("display_data", data=bundle)]
    nbformat.write(notebook, path)
    return name


def open_reports(page: Page, server: JupyterServer, *reports: object) -> Locator:
    """Show them in a notebook; the first one's element."""
    open_notebook(page, server, write_reports(server, "reports.ipynb", *reports))
    report = page.locator(".jp-VramReport").first
    expect(report).to_be_visible(timeout=30_000)
    # A notebook that opens takes the focus at last.
    page.wait_for_function(FOCUSED)
    return report


def drawn(report: Locator) -> Locator:
    """Its chart, once Plotly has drawn it."""
    chart = report.get_by_role("slider", name="Memory over time")
    expect(chart.locator(".js-plotly-plot .scatterlayer path").first).to_be_attached(timeout=20_000)
    return chart


def use_theme(page: Page, theme: str) -> None:
    """Switch to a theme as a user does."""
    page.keyboard.press("Control+Shift+c")
    page.locator(".lm-CommandPalette-input, .jp-ModalCommandPalette input").last.fill(
        f"Use Theme: {theme}"
    )
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme, timeout=15_000)


def no_overflow(report: Locator) -> bool:
    return bool(report.evaluate("node => node.scrollWidth <= node.clientWidth"))


@pytest.fixture
def page(page: Page) -> Iterator[Page]:
    """A tall page: no uncaught error of ours, no dialog."""
    page.set_viewport_size({"width": 1400, "height": 1150})
    problems: list[str] = []

    def dismiss(dialog: Dialog) -> None:
        problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def note(error: Error) -> None:
        if OURS in (error.stack or ""):
            problems.append(str(error))

    page.on("pageerror", note)
    page.on("dialog", dismiss)
    yield page
    assert problems == []


def test_report_of_a_training_step(
    page: Page, lab: JupyterServer, shot: Callable[[str], None]
) -> None:
    report = open_reports(page, lab, example("gpu"))
    expect(page.locator(".jp-Notebook")).not_to_contain_text("static")
    expect(report.get_by_role("heading", level=2)).to_have_text("Peak 7.64 GiB")
    expect(report).to_contain_text("exact · allocator blocks, on cuda:0 · RTX 4090")
    expect(report).to_contain_text("+4.79 over the start · 1.21 GiB stayed · 1.84 s")
    chart = drawn(report)
    for phase in ("forward", "backward", "optimizer"):
        expect(chart.locator(".annotation-text", has_text=phase)).to_be_visible()
    expect(chart.locator(".annotation-text", has_text="peak 7.64 GiB")).to_be_visible()
    shot("report-gpu")

    # The legend follows the pointer, and the arrow keys; without either it is the peak's.
    legend = report.locator(".jp-VramReport-legend")
    expect(legend).to_contain_text("At the peak, 0.92 s · backward")
    expect(legend).to_contain_text("7.64 GiB")
    box = chart.bounding_box()
    assert box
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 100)
    expect(legend).to_contain_text(re.compile(r"At 0\.[45]\d s · forward"))
    expect(chart.locator(".jp-VramReport-cursor")).to_be_visible()
    shot("report-hovered")
    page.mouse.move(box["x"] + 40, box["y"] - 60)
    expect(legend).to_contain_text("At the peak")
    chart.press("ArrowRight")
    expect(legend).to_contain_text("At 0.94 s · backward")
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"0\.94 s, backward: 7\.\d\d GiB"))
    chart.press("Escape")
    expect(legend).to_contain_text("At the peak")

    line = report.locator(".jp-VramReport-source tbody tr").nth(2)
    expect(line).to_have_text(re.compile(r"3loss = out\.loss0\.721\.21"))
    expect(report.locator(".jp-VramReport-kept")).to_contain_text(
        "history[-1] holds the graph of loss: append loss.item()"
    )
    expect(report).to_contain_text("inactive split 412 MiB ÷ reserved 9.00 GiB")
    expect(report.locator(".jp-VramReport-devices")).to_contain_text("cuda:1")


def test_modules_open_by_the_keyboard(
    page: Page, lab: JupyterServer, shot: Callable[[str], None]
) -> None:
    report = open_reports(page, lab, example("gpu"), example("gpu"))
    drawn(report)
    tree = report.get_by_role("tree", name="Modules, at the peak")
    rows = tree.get_by_role("treeitem")
    expect(rows).to_have_count(7)
    rows.first.focus()
    for key in ("End", "Home", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(rows).to_have_count(8)
    focused = tree.locator(":focus")
    expect(focused).to_contain_text("mlp GPT2MLP")
    expect(focused).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(focused).to_contain_text("c_proj Conv1D")
    shot("report-tree")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect(focused).to_contain_text("h.*")
    page.keyboard.press("Enter")
    expect(focused).to_have_attribute("aria-expanded", "false")
    expect(rows).to_have_count(5)
    rows.filter(has_text="h.*").click()
    expect(rows).to_have_count(7)

    # None of these keys was one for the notebook around it.
    cells = page.locator(".jp-Cell")
    expect(cells.nth(0)).to_have_class(re.compile("jp-mod-active"))
    expect(page.locator(".jp-Notebook")).to_have_class(re.compile("jp-mod-commandMode"))


def test_peak_by_line_module_and_op(page: Page, lab: JupyterServer) -> None:
    report = open_reports(page, lab, example("gpu"))
    parts = report.locator(".jp-VramReport-parts")
    expect(parts.locator("tbody tr").first).to_contain_text("activations")
    choice = report.get_by_role("radiogroup", name="The peak, by")
    choice.get_by_role("radio", name="line").click()
    expect(parts.locator("tbody tr").first).to_contain_text("line 2 out = model(**batch)")
    page.keyboard.press("ArrowRight")
    expect(choice.get_by_role("radio", name="module")).to_be_focused()
    expect(parts.locator("tbody tr").first).to_contain_text("model.transformer.h.0.mlp")
    page.keyboard.press("ArrowRight")
    expect(parts.locator("tbody tr", has_text="aten::linear")).to_contain_text("63 %")


def test_comparison_and_hostile_text(
    page: Page, lab: JupyterServer, shot: Callable[[str], None]
) -> None:
    report = open_reports(page, lab, example("compared"))
    drawn(report)
    expect(report).to_contain_text("The cell ended with KeyboardInterrupt.")
    expect(report).to_contain_text("tensor bytes, on the CPU")
    comparison = report.locator(".jp-VramReport-comparison")
    expect(comparison).to_contain_text("2.00 GiB less at the peak than plain (−21 %).")
    comparison.get_by_role("radio", name="line").click()
    expect(comparison).to_contain_text("out = model(**batch)5.433.43−2.00")
    shot("report-compared")
    expect(report.locator(".jp-VramReport-kept")).to_contain_text('<img src=x onerror="alert(1)">')
    expect(report.locator("img, script, iframe, a")).to_have_count(0)
    assert no_overflow(report)


def test_narrow_and_wide(page: Page, lab: JupyterServer, shot: Callable[[str], None]) -> None:
    report = open_reports(page, lab, example("compared"), example("gpu"))
    chart = drawn(report)
    for width in (400, 1200):
        page.set_viewport_size({"width": width + WIDTH_BESIDE, "height": 1900})
        plot = chart.locator(".main-svg").first
        expect(plot).to_have_attribute("width", str(width - 16))
        assert no_overflow(report)
        shot(f"report-{width}")


def test_dry_run_answers_first(page: Page, lab: JupyterServer, shot: Callable[[str], None]) -> None:
    report = open_reports(page, lab, example("estimate"))
    drawn(report)
    expect(report.locator("h2").first).to_have_text(
        "Dry run: 9.15 GiB of the RTX 4090's 24.0 GiB: fits"
    )
    fits = report.locator("section", has_text="Fits on").locator("tbody tr")
    expect(fits.nth(1)).to_have_text("RTX 3060 Laptop6.00 GiB✗ does not fit≈ 4none")
    expect(report).to_contain_text("a loop over 10,000 batches was ended after 4")
    for theme in reversed(THEMES):
        use_theme(page, theme)
        page.mouse.move(0, 0)
        results = Axe().run(page, context=".jp-VramReport")
        assert results.violations_count == 0, results.generate_report()
        shot(f"estimate-{theme.split('JupyterLab ')[1].lower().replace(' ', '-')}")
    page.set_viewport_size({"width": 400 + WIDTH_BESIDE, "height": 1900})
    assert no_overflow(report)
    shot("estimate-narrow")


def test_outputs_without_a_report_say_why(page: Page, lab: JupyterServer) -> None:
    sizes: list[int] = []

    def note(response: Response) -> None:
        if OURS in response.url:
            sizes.append(int(response.header_value("content-length") or 0))

    page.on("response", note)
    newer = {**example("gpu"), "schema_version": [2, 0]}
    damaged = {**example("gpu"), "peak_bytes": "many"}
    open_reports(page, lab, example("empty"), newer, damaged, None)
    reports = page.locator(".jp-VramReport")
    expect(reports.nth(0)).to_contain_text("This cell allocated nothing on the CPU.")
    expect(reports.nth(1)).to_contain_text("This report has schema version 2.0")
    expect(reports.nth(2)).to_contain_text('damaged: report.peak_bytes is "many"')
    expect(page.locator(".jp-Cell").nth(3)).to_contain_text("holds no memory report")
    # Nor is Plotly fetched for them.
    assert 0 < sum(sizes) < 500_000


def test_themes(page: Page, lab: JupyterServer, shot: Callable[[str], None]) -> None:
    report = open_reports(page, lab, example("gpu"), example("compared"))
    chart = drawn(report)
    seen = set()
    for theme in reversed(THEMES):
        use_theme(page, theme)
        page.mouse.move(0, 0)
        page.wait_for_timeout(300)
        seen.add(chart.locator(".annotation-text").first.evaluate("n => getComputedStyle(n).fill"))
        results = Axe().run(page, context=".jp-VramReport")
        assert results.violations_count == 0, results.generate_report()
        shot(f"report-{theme.split('JupyterLab ')[1].lower().replace(' ', '-')}")
    assert len(seen) > 1


def test_notebook_7(gpu: FakeNvml, page: Page, tmp_path: Path, shot: Callable[[str], None]) -> None:
    with JupyterServer(tmp_path / "nb", app="notebook", env=gpu_env(gpu)) as server:
        report = open_reports(page, server, example("gpu"), example("compared"))
        drawn(report)
        shot("report-notebook7")
        tree = report.get_by_role("tree")
        tree.get_by_role("treeitem").first.focus()
        page.keyboard.press("ArrowDown")
        expect(tree.locator(":focus")).to_contain_text("transformer")
        page.keyboard.press("ArrowLeft")
        expect(tree.get_by_role("treeitem")).to_have_count(3)
        expect(page.locator(".jp-Cell").nth(0)).to_have_class(re.compile("jp-mod-active"))
