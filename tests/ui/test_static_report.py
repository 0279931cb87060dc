"""The static HTML of a report where no labextension draws it: plain pages, light and dark, wide and
narrow, and JupyterLab, trusted or not, without the report's own mime type."""

from __future__ import annotations

from collections.abc import Callable

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from nbformat.sign import NotebookNotary
from playwright.sync_api import Locator, Page, expect

from jupyter_vram.render.report_bundle import bundle
from jupyter_vram.render.report_html import report_html
from reports.examples import compared, empty, gpu
from support.browser import IN_FRONT, open_lab
from support.html import parse
from support.jupyter import JupyterServer

LIGHT = "background:#fff;color:#222"
DARK = "background:#1e1e1e;color:#ccc"  # a theme's own, whatever the system prefers
REPORTS = {"gpu": gpu, "compared": compared, "empty": empty}
# What a code host leaves: no styles, no unknown tags.
STRIP = "node => node.querySelectorAll('*').forEach(child => child.removeAttribute('style'))"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
PROBE = '<i data-probe="x"></i>'  # what the sanitiser takes from untrusted outputs
DRAWN = "image => image.complete && image.naturalWidth > 0"


def show(page: Page, name: str, style: str, width: int) -> Locator:
    page.set_viewport_size({"width": width, "height": 900})
    page.set_content(
        f'<!doctype html><html lang="en"><title>A report</title><body style="margin:12px;'
        f'font-family:sans-serif;{style}"><main>{report_html(REPORTS[name]())}</main></body></html>'
    )
    return page.locator("main")


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize(
    ("look", "style", "width"),
    [("light", LIGHT, 1000), ("dark", DARK, 1000), ("narrow", DARK, 340)],
)
def test_plain_page(
    page: Page, shot: Callable[[str], None], name: str, look: str, style: str, width: int
) -> None:
    main = show(page, name, style, width)
    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert overflow <= 0
    for image in main.locator("img").all():
        assert image.evaluate(DRAWN)
    results = Axe().run(page, context="main")
    assert results.violations_count == 0, results.generate_report()
    page.set_viewport_size({"width": width, "height": main.evaluate("m => m.scrollHeight") + 30})
    shot(f"report-html-{name}-{look}")


@pytest.mark.parametrize("name", REPORTS)
def test_the_browser_reads_it_as_it_was_written(page: Page, name: str) -> None:
    """Nothing was misplaced: a browser silently moves what may not stand where it stands."""
    main = show(page, name, LIGHT, 1000)
    tags = main.evaluate("m => [...m.querySelectorAll('*')].map(e => e.localName)")
    assert tags == [e.tag for e in parse(report_html(REPORTS[name]())).walk()]


def test_system_dark_mode_does_not_matter(page: Page) -> None:
    show(page, "gpu", LIGHT, 1000)
    light = page.screenshot()
    page.emulate_media(color_scheme="dark")
    assert page.screenshot() == light


def test_modules_open_and_close(page: Page) -> None:
    main = show(page, "gpu", LIGHT, 1000)
    leaf = main.get_by_text("c_proj").first
    expect(leaf).to_be_hidden()
    main.locator("summary", has_text="h.*").click()
    main.locator("summary", has_text="mlp").click()
    expect(leaf).to_be_visible()
    main.locator("summary", has_text="transformer").click()
    expect(leaf).to_be_hidden()


def test_without_styles(page: Page, shot: Callable[[str], None]) -> None:
    main = show(page, "gpu", LIGHT, 800)
    bars = main.get_by_text("████████████").first
    expect(bars).to_be_hidden()
    main.evaluate(STRIP)
    expect(bars).to_be_visible()
    page.set_viewport_size({"width": 800, "height": main.evaluate("m => m.scrollHeight") + 30})
    shot("report-html-without-styles")


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_lab_without_our_mime_type(
    page: Page, lab: JupyterServer, shot: Callable[[str], None], trusted: bool, theme: str
) -> None:
    content = {mime: bundle(gpu())[mime] for mime in ("text/html", "text/plain")}
    content["text/html"] = f"{content['text/html']}{PROBE}"
    output = nbformat.v4.new_output("display_data", data=content)
    cell = nbformat.v4.new_code_cell("%%vram\nout = model(**batch)", outputs=[output])
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": KERNEL})
    name = f"saved-{trusted}-{theme}.ipynb"
    if trusted:
        NotebookNotary(data_dir=str(lab.home / "data")).sign(notebook)
    nbformat.write(notebook, lab.root / name)
    lab.write_settings(
        "@jupyterlab/apputils-extension:themes",
        {"theme": f"JupyterLab {theme.capitalize()}"},
    )
    open_lab(page, lab, f"/tree/{name}")
    report = page.locator(f"{IN_FRONT} .jp-RenderedHTML")
    expect(report).to_contain_text("Peak 7.64 GiB", timeout=60_000)
    expect(page.locator("#jupyterlab-splash")).to_have_count(0, timeout=30_000)
    expect(report.locator("[data-probe]")).to_have_count(1 if trusted else 0)
    image = report.locator("img")
    expect(image).to_be_visible()
    assert image.evaluate(DRAWN)
    for words in ("out = model(**batch)", "history[-1]", "4.5 % = inactive split", "GPT2Block"):
        expect(report.get_by_text(words).first).to_be_visible()
    widths = report.evaluate(
        """node => [...node.querySelectorAll('td span[style*="background-color"]')]
          .map(bar => Math.round(bar.getBoundingClientRect().width))"""
    )
    assert max(widths) > 100
    assert report.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    page.set_viewport_size({"width": 1200, "height": 1250})
    shot(f"report-html-lab-{'trusted' if trusted else 'untrusted'}-{theme}")
