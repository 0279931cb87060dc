"""The mime bundle: its representations, its bound, and the sums after folding."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jupyter_vram.model.report_data import (
    MIME_TYPE,
    Change,
    Comparison,
    Curve,
    DevicePeak,
    Kept,
    ModuleNode,
    ReportData,
    Row,
    Series,
    SourceLine,
    Span,
)
from jupyter_vram.model.report_json import from_json, to_json
from jupyter_vram.model.units import CATEGORIES
from jupyter_vram.render.report_bundle import LARGE, MAX_BYTES, MEDIUM, SMALL, bundle, size_bytes
from jupyter_vram.render.report_fold import SEVERAL, Limits, fold
from jupyter_vram.render.report_text import LIMITS as TEXT
from jupyter_vram.render.report_words import before_rows, is_before, is_cell_line
from reports.examples import compared, empty, gpu
from support.html import parse

ALPHABETS = ("abc", "\"&<>'", '\\"\\', "漢字🎉", "\x00\x1b\ud800\u202e", "`_. ")


def big_report(seed: int, rows: int, lines: int, nodes: int, points: int, chars: int) -> ReportData:
    """With that many parts of random bytes, and texts of about that length."""
    draw = random.Random(seed)
    sizes = [draw.getrandbits(draw.choice((1, 20, 33, 45))) for _ in range(max(1, rows))]
    peak = sum(sizes)

    def text() -> str:
        return "".join(draw.choices(draw.choice(ALPHABETS), k=draw.randint(0, chars)))

    def parts() -> tuple[Row, ...]:
        return tuple(sorted((Row(text(), n, n % 99) for n in sizes), key=lambda row: -row.bytes))

    def changes() -> tuple[Change, ...]:
        return tuple(Change(text(), draw.getrandbits(40), n) for n in sizes)

    source = [SourceLine(n, text(), 0, draw.getrandbits(20)) for n in range(1, lines + 1)]
    return ReportData(
        recorder="snapshot",
        bytes_kind="block",
        exact=False,
        device=text(),
        device_name=text(),
        name=text(),
        execution_count=draw.getrandbits(30),
        duration_s=float(points),
        start_bytes=0,
        peak_bytes=peak,
        peak_s=float(points // 2),
        end_bytes=0,
        retained_bytes=sum(sizes),
        peak_requested_bytes=peak // 2,
        curve=Curve(
            tuple(i + draw.random() for i in range(points)),
            tuple(
                Series(name, tuple(draw.getrandbits(40) for _ in range(points)))
                for name in (*CATEGORIES, *(text() for _ in range(rows // 10)))
            ),
        ),
        spans=tuple(Span(text(), i / rows * points, (i + 1) / rows * points) for i in range(rows)),
        by_category=parts(),
        by_line=parts(),
        by_module=parts(),
        by_op=parts(),
        source=tuple(source),
        modules=random_tree(draw, nodes, text),
        kept=tuple(Kept(text(), n, 1, draw.choice(CATEGORIES), None, text()) for n in sizes),
        other_devices=tuple(DevicePeak(text(), 0, n, 0) for n in sizes),
        comparison=Comparison(text(), 1, 2, 3, 4.0, changes(), changes(), changes()),
        error=text(),
        truncated=True,
        notes=tuple(text() for _ in range(rows)),
    )


def random_tree(draw: random.Random, nodes: int, text: object) -> tuple[ModuleNode, ...]:
    """Wide or deep: each new node takes some of the last ones as children."""
    assert callable(text)
    done: list[ModuleNode] = []
    depth: list[int] = []
    for _ in range(nodes):
        take = draw.choice((0, 1, 1, 2, 40))
        children, below = tuple(done[-take:] if take else ()), depth[-take:] if take else []
        if max(below, default=0) >= 150:
            children, take = (), 0
        del done[len(done) - len(children) :], depth[len(depth) - len(children) :]
        own = draw.getrandbits(30)
        done.append(ModuleNode(text(), text(), own + sum(c.bytes for c in children), 1, children))
        depth.append(1 + max(below, default=0) if children else 1)
    return tuple(done)


def tree_sums_hold(before: ReportData, after: ReportData) -> None:
    assert sum(n.bytes for n in after.modules) == sum(n.bytes for n in before.modules)
    own = [n.bytes - sum(c.bytes for c in n.children) for n in after.walk_modules()]
    assert min(own, default=0) >= 0


def sums(report: ReportData) -> list[int]:
    other = report.comparison
    assert other
    return [
        *(sum(row.bytes for row in report.rows(by)) for by in ("category", "line", "module", "op")),
        *(sum(row.count for row in report.rows(by)) for by in ("category", "line")),
        sum(line.kept_bytes for line in report.source),
        sum(line.peak_bytes for line in report.source),
        sum(kept.bytes for kept in report.kept),
        *(
            sum(change.bytes - change.before_bytes for change in changes)
            for changes in (other.categories, other.lines, other.modules)
        ),
    ]


HUGE = st.builds(
    big_report,
    seed=st.integers(0, 1 << 32),
    rows=st.sampled_from((1, 7, 60, 300)),
    lines=st.sampled_from((0, 5, 150, 1_500)),
    nodes=st.sampled_from((0, 9, 120, 1_000)),
    points=st.sampled_from((0, 1, 2, 90, 900)),
    chars=st.sampled_from((3, 40, 400)),
)


@example(big_report(0, 300, 1_500, 1_000, 900, 400), True)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(HUGE, st.booleans())
def test_bounded_and_exact_whatever_was_recorded(report: ReportData, plot: bool) -> None:
    content = bundle(report, plot=plot)
    assert size_bytes(content) <= MAX_BYTES
    folded = from_json(json.loads(json.dumps(content[MIME_TYPE])))
    assert folded.peak_bytes == report.peak_bytes
    assert sums(folded) == sums(report)
    assert sum(row.bytes for row in folded.by_category) == folded.peak_bytes
    tree_sums_hold(report, folded)
    assert bool(folded.curve.series) <= plot
    parse(str(content["text/html"]))
    json.dumps(content, ensure_ascii=False).encode()


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(HUGE)
def test_the_smallest_level_always_fits(report: ReportData) -> None:
    from jupyter_vram.render.report_html import report_html
    from jupyter_vram.render.report_text import report_text

    content = {
        MIME_TYPE: to_json(fold(report, SMALL)),
        "text/html": report_html(report, SMALL),
        "text/plain": report_text(report),
    }
    assert size_bytes(content) <= MAX_BYTES


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(HUGE, st.sampled_from((LARGE, MEDIUM, SMALL, TEXT)))
def test_folding_keeps_within_limits_and_folds_once(report: ReportData, limits: Limits) -> None:
    folded = fold(report, limits)
    assert len(folded.curve.time_s) <= max(limits.points, 5)
    assert max(map(len, (folded.by_op, folded.kept, folded.spans))) <= limits.rows
    assert len(folded.source) <= limits.source_lines
    assert sum(1 for _ in folded.walk_modules()) <= limits.modules
    assert len(folded.notes) <= limits.notes + 1
    again = fold(folded, dataclasses.replace(limits, notes=limits.notes + 1, note_chars=9_999))
    assert again == folded


def test_size_is_that_of_the_notebook_file(tmp_path: Path) -> None:
    content = bundle(compared())
    output = nbformat.v4.new_output("display_data", data=content, metadata={})
    cell = nbformat.v4.new_code_cell("", outputs=[output])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "with.ipynb")
    cell.outputs = []
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "without.ipynb")
    grown = (tmp_path / "with.ipynb").stat().st_size - (tmp_path / "without.ipynb").stat().st_size
    assert size_bytes(content) == pytest.approx(grown, abs=1_000)


def test_a_small_report_is_whole() -> None:
    report = gpu()
    content = bundle(report)
    assert set(content) == {MIME_TYPE, "text/html", "text/plain"}
    folded = from_json(content[MIME_TYPE])
    assert dataclasses.replace(folded, curve=report.curve) == report
    assert content[MIME_TYPE] == to_json(folded)


def test_no_plot() -> None:
    content = bundle(gpu(), plot=False)
    assert from_json(content[MIME_TYPE]).curve == Curve((), ())
    assert "<img" not in str(content["text/html"])
    assert "activation" in str(content["text/html"])


def test_tails_are_told() -> None:
    rows = tuple(Row(f"op{i}", 10_000 - i, 1) for i in range(500))
    report = dataclasses.replace(gpu(), by_op=rows)
    folded = fold(report, MEDIUM)
    assert Row("… 471 more", sum(row.bytes for row in rows[29:]), 471) in folded.by_op
    assert folded.notes[-1] == "Folded here, to stay small: 471 rows. The sums are unchanged."


def test_lines_and_owners_have_tails_of_their_own() -> None:
    """A reader adds up what was before, the lines of the cell, and other code, each apart."""
    lines = [Row(f"line {n} › util.py:{n}" if n % 2 else f"line {n}", n, 1) for n in range(1, 90)]
    before = [Row("before: parameter", 5_000, 9), Row("before: input", 1, 9)]
    others = [Row(f"util.py:{n}", n, 1) for n in range(1, 60)]
    rows = sorted([*lines, *before, *others], key=lambda row: -row.bytes)
    source = tuple(SourceLine(n, "f()", n, 0) for n in range(1, 90))
    peak = sum(row.bytes for row in rows)
    report = dataclasses.replace(empty(), by_line=tuple(rows), source=source, peak_bytes=peak)
    for limits in (MEDIUM, SMALL, TEXT):
        folded = fold(report, limits)
        assert [row for row in folded.by_line if is_before(row)] == before
        assert sum(r.bytes for r in folded.by_line if is_cell_line(r)) == sum(range(1, 90))
        beside = sum(line.peak_bytes for line in folded.source)
        assert beside + sum(row.bytes for row in before_rows(folded)) == peak


def test_a_tail_of_several_categories_has_none_of_them() -> None:
    kept = [Kept(f"x{i}", 9, 1, "input" if i % 2 else "activation", 1) for i in range(40)]
    folded = fold(dataclasses.replace(empty(), kept=tuple(kept)), MEDIUM)
    assert folded.kept[-1].category == SEVERAL
    folded = fold(dataclasses.replace(empty(), kept=tuple(kept[::2] * 3)), MEDIUM)
    assert folded.kept[-1].category == "activation"


def test_a_long_source_shows_the_lines_with_bytes() -> None:
    source = [SourceLine(n, f"x{n} = {n}", 0, 0) for n in range(1, 1001)]
    source[499] = SourceLine(500, "loss.backward()", 7, 2)
    source[300] = SourceLine(301, "tiny", 1, 0)
    folded = fold(dataclasses.replace(empty(), source=tuple(source)), SMALL)
    shown = {line.number: line.text for line in folded.source}
    assert shown[500] == "loss.backward()"
    assert shown[499] == "x499 = 499"
    assert shown[302] == "x302 = 302"
    gaps = [line for line in folded.source if line.text.startswith("…")]
    covered = (
        len(folded.source)
        - len(gaps)
        + sum(int(line.text.split()[1].replace(",", "")) for line in gaps)
    )
    assert covered == 1000


def test_a_thinned_curve_keeps_its_peak_and_its_ends() -> None:
    values = [i % 100 for i in range(10_000)]
    values[5_432] = 1_000
    curve = Curve(tuple(map(float, range(10_000))), (Series("activation", tuple(values)),))
    report = dataclasses.replace(empty(), curve=curve, peak_s=5_432.0, duration_s=9_999.0)
    thinned = fold(report, SMALL).curve
    assert len(thinned.time_s) <= SMALL.points
    assert thinned.series[0].bytes[thinned.time_s.index(5_432.0)] == 1_000
    assert (thinned.time_s[0], thinned.time_s[-1]) == (0.0, 9_999.0)


def test_a_deep_tree_keeps_the_largest_branches() -> None:
    node = ModuleNode("leaf", "Linear", 1)
    for level in range(140):
        node = ModuleNode(f"m{level}", "Block", 10 + level, children=(node,))
    folded = fold(dataclasses.replace(empty(), modules=(node,)), LARGE)
    assert sum(1 for _ in folded.walk_modules()) == LARGE.depth
    assert "117 modules" in folded.notes[-1]


@pytest.mark.parametrize("make", [gpu, compared, empty])
def test_nothing_but_the_report_is_told(make: object) -> None:
    """No path, no host, no device's UUID: what a saved notebook must not tell."""
    assert callable(make)
    text = json.dumps(bundle(make()))
    for private in (str(Path.home()), str(Path.cwd()), "GPU-", "MIG-", "file:", "http:"):
        assert private not in text
    assert '"/' not in text
