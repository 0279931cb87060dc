"""The static HTML of a report: well-formed, inert, escaped, with figures that add up."""

from __future__ import annotations

import dataclasses
import re
from base64 import b64decode
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from jupyter_vram.model.report_data import DIMENSIONS, Curve, ReportData, Row, Series, Span
from jupyter_vram.model.units import CATEGORIES
from jupyter_vram.render.colors import CATEGORY_COLORS, KEPT, LINE, PEAK, color_of
from jupyter_vram.render.html_timeline import ticks
from jupyter_vram.render.report_html import report_html
from jupyter_vram.render.report_words import headline
from reports.examples import EXAMPLES, compared, empty, gpu
from support.html import Element, parse

MIB, GIB = 1 << 20, 1 << 30
ALL = pytest.mark.parametrize("make", EXAMPLES.values(), ids=EXAMPLES.keys())
# What JupyterLab's sanitiser lets through of untrusted outputs, so far as a report uses it.
TAGS = {
    *("div", "span", "strong", "em", "code", "ul", "li", "details", "summary", "img"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"style", "title", "scope", "align", "open", "alt", "width", "height", "src"}


def svg_of(page: Element) -> ElementTree.Element:
    (image,) = page.all("img")
    head, _, body = image.attributes["src"].partition(",")
    assert head == "data:image/svg+xml;base64"
    return ElementTree.fromstring(b64decode(body))


def table_with(page: Element, words: str) -> Element:
    (found,) = [table for table in page.all("table") if words in table.text()]
    return found


def exact_bytes(element: Element) -> list[int]:
    titles = [cell.attributes.get("title", "") for cell in element.walk()]
    return [int(t.removesuffix(" bytes").replace(",", "")) for t in titles if t.endswith(" bytes")]


@ALL
def test_well_formed_and_inert(make: Callable[[], ReportData]) -> None:
    page = parse(report_html(make()))
    for element in page.walk():
        assert element.tag in TAGS
        assert set(element.attributes) <= ATTRIBUTES
        assert "url(" not in element.attributes.get("style", "")
        assert element.attributes.get("src", "data:").startswith("data:")


@ALL
def test_several_reports_share_a_page(make: Callable[[], ReportData]) -> None:
    html = report_html(make())
    assert " id=" not in html
    assert " class=" not in html  # no one's style sheet means it


@ALL
def test_same_headline_as_the_text(make: Callable[[], ReportData]) -> None:
    page = parse(report_html(make()))
    words = headline(make()).replace("`", "")
    text = re.sub(r"\s+([,;:])", r"\1", page.text()).lower()
    if make().estimate is not None:  # a dry run's answer comes first
        text = text[text.index("peak ") :]
    assert text.startswith(words.lower())


def test_user_texts_are_escaped() -> None:
    html = report_html(compared())
    assert "<script" not in html
    assert "<img src=x" not in html
    text = parse(html).text()
    assert "<script>alert(1)</script>" in text
    assert '<img src=x onerror="alert(1)">' in text


def test_hostile_names_everywhere_stay_text() -> None:
    bad = "</code><script>alert(1)</script>\"'><img src=x onerror=alert(1)> `a` &amp;"
    base = compared()
    assert base.comparison
    hostile = dataclasses.replace(
        base,
        device=bad,
        device_name=bad,
        name=bad,
        error=bad,
        notes=(bad,),
        by_category=(Row(bad, base.peak_bytes, 1),),
        by_line=(Row(bad, base.peak_bytes, 1),),
        by_op=(Row(bad, base.peak_bytes, 1),),
        modules=(dataclasses.replace(base.modules[0], name=bad, class_name=bad),),
        kept=tuple(dataclasses.replace(k, name=bad, category=bad, hint=bad) for k in base.kept),
        curve=Curve((0.0, 1.84), (Series(bad, (1, 2)),)),
        spans=(Span(bad, 0, 1),),
        comparison=dataclasses.replace(base.comparison, name=bad),
        other_devices=gpu().other_devices,
    )
    page = parse(report_html(hostile))
    assert {element.tag for element in page.walk()} <= TAGS
    assert len(page.all("img")) == 1
    svg_of(page)


def test_categories_add_up_to_the_peak() -> None:
    page = parse(report_html(gpu()))
    table = table_with(page, "At the peak")
    assert sum(exact_bytes(table)) == gpu().peak_bytes


def test_lines_and_what_was_before_add_up_to_the_peak() -> None:
    report = gpu()
    rows = table_with(parse(report_html(report)), "out = model").all("tr")
    first = [cell for row in rows for cell in row.all("td")[2:3]]
    at_peak = [int(c.attributes["title"].split()[0].replace(",", "")) for c in first if c.text()]
    assert sum(at_peak) == report.peak_bytes
    stayed = [row for row in rows if "1.21 GiB" in row.text()]
    assert len(stayed) == 1
    assert "loss = out.loss" in stayed[0].text()


def test_module_tree_opens_level_by_level() -> None:
    page = parse(report_html(gpu()))
    outer = next(d for d in page.all("details") if "GPT2LMHeadModel" in d.all("summary")[0].text())
    assert "open" in outer.attributes
    inner = next(d for d in outer.all("details") if "h.* × 12" in d.all("summary")[0].text())
    assert "open" not in inner.attributes
    assert "c_proj Conv1D" in inner.text()


def test_the_dimension_asked_for_is_first() -> None:
    heads = {"category": "At the peak", "line": "Cell at peak", "module": "Modules at"}
    heads["op"] = "Operations"
    for by in DIMENSIONS:
        page = parse(report_html(dataclasses.replace(gpu(), detail=by)))
        text = page.text()
        assert text.index(heads[by]) == min(text.index(head) for head in heads.values())
        assert text.count("Operations at the peak") == 1
        operations = next(d for d in page.all("details") if "Operations" in d.text())
        assert ("open" in operations.attributes) == (by == "op")


def test_everything_is_told() -> None:
    text = parse(report_html(gpu())).text()
    for words in (
        "history[-1] activation, 214 blocks, line 3",
        "→ holds the graph of loss : append",
        "4.5 % = inactive split 412 MiB / reserved 9.00 GiB",
        "cuda:1",
        "forward 800 ms",
        "aten::linear",
        "Other processes' memory",
    ):
        assert words in text
    text = parse(report_html(compared())).text()
    assert "against “plain”: 9.64 GiB → 7.64 GiB" in text
    assert "The cell ended with KeyboardInterrupt" in text


def test_bars_show_without_styles() -> None:
    table = table_with(parse(report_html(gpu())), "out = model")
    assert "█" not in table.text()
    assert "████████████" in table.text(hidden=True)


def test_timeline_is_an_image_that_says_what_it_shows() -> None:
    page = parse(report_html(gpu()))
    (image,) = page.all("img")
    assert "peak 7.64 GiB at 920 ms, 4.06 GiB at the end" in image.attributes["alt"]
    svg = svg_of(page)
    assert not any((element.text or "").strip() for element in svg.iter())
    fills = [element.get("fill", "") for element in svg]
    order = ("activation", "optimizer state", "gradient", "parameter")
    assert [c for c in fills if c in {color_of(name) for name in order}] == [
        color_of(name) for name in order
    ]


def test_bands_of_the_timeline_are_the_bytes() -> None:
    curve = Curve((0.0, 1.0, 2.0), (Series("parameter", (GIB,) * 3), Series("input", (0, GIB, 0))))
    report = dataclasses.replace(
        empty(), curve=curve, peak_bytes=2 * GIB, peak_s=1.0, duration_s=2.0
    )
    paths = {e.get("fill"): e.get("d") for e in svg_of(parse(report_html(report)))}
    assert paths[color_of("parameter")] == "M0 200L0 100 500 100 1000 100V200Z"
    assert paths[color_of("input")] == "M0 200L0 100 500 0 1000 100V200Z"


def test_without_a_curve_there_is_no_image() -> None:
    report = dataclasses.replace(gpu(), curve=Curve((), ()), spans=())
    page = parse(report_html(report))
    assert not page.all("img")
    assert "activation" in page.text()


def test_many_phases_are_summed_up() -> None:
    spans = tuple(
        Span("forward" if i % 2 == 0 else "backward", i / 10, (i + 1) / 10) for i in range(18)
    )
    text = parse(report_html(dataclasses.replace(gpu(), spans=spans))).text()
    assert "Phases: forward × 9: 900 ms, backward × 9: 900 ms" in text


def test_nothing_recorded_says_so() -> None:
    page = parse(report_html(empty()))
    assert "No memory was allocated on this device." in page.text()
    assert not page.all("table")


@pytest.mark.parametrize(
    "most", [1, 3, 500, 1023, 1024, 3000, 700 * MIB, 7 * GIB, 80 * GIB, 1 << 60]
)
def test_ticks_are_round_and_reach_the_top(most: int) -> None:
    steps = ticks(most)
    assert steps[0] == 0
    assert steps[-1] >= most > steps[-2]
    assert 2 <= len(steps) <= 6


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("background", ["#ffffff", "#1e1e1e", "#111111"])
def test_colors_show_on_light_and_dark(background: str) -> None:
    assert set(CATEGORY_COLORS) == set(CATEGORIES)
    for color in {*CATEGORY_COLORS.values(), PEAK, KEPT, LINE}:
        low, high = sorted((luminance(color) + 0.05, luminance(background) + 0.05))
        assert high / low >= 3, f"{color} on {background}"
