"""The plain text of a report: its figures, its width, its sums."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.model.report_data import DIMENSIONS, Kept, ReportData, Row, SourceLine
from jupyter_vram.render.report_text import (
    BAR,
    WIDTH,
    bar,
    fit,
    headline,
    report_text,
    rows_text,
    width_of,
)
from jupyter_vram.render.report_words import (
    before_rows,
    format_change,
    format_percent,
    format_seconds,
)
from reports.examples import EXAMPLES, compared, empty, gpu

MIB = 1 << 20


@pytest.mark.parametrize("make", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_no_line_is_wider_than_the_page(make: Callable[[], ReportData]) -> None:
    text = report_text(make())
    assert max(map(width_of, text.split("\n"))) <= WIDTH
    assert [line for line in text.split("\n") if line != line.rstrip()] == []


def test_headline() -> None:
    assert headline(gpu()) == (
        "peak 7.64 GiB, +4.79 GiB over the start; 1.21 GiB stayed: `history[-1]`, line 3"
    )
    assert headline(empty()) == "peak 0 B, never above the start; nothing stayed"
    assert headline(dataclasses.replace(gpu(), exact=False)).startswith("peak ≥ 7.64 GiB")


def test_headline_names_a_holder_of_a_part_as_one() -> None:
    kept = (Kept("cache", 60 * MIB, 1, "unknown", None), Kept(None, 40 * MIB, 2, "unknown", 2))
    report = dataclasses.replace(empty(), retained_bytes=100 * MIB, kept=kept)
    assert headline(report).endswith("; 100 MiB stayed: mostly `cache`")
    report = dataclasses.replace(report, retained_bytes=200 * MIB)
    assert headline(report).endswith("; 200 MiB stayed: among it `cache`")
    report = dataclasses.replace(report, kept=kept[1:])
    assert headline(report).endswith("; 200 MiB stayed")


def test_every_part_is_there() -> None:
    text = report_text(gpu())
    assert "cuda:0, NVIDIA GeForce RTX 4090 · 1.84 s · exact, in allocator blocks" in text
    assert "4.5 % = inactive split 412 MiB / reserved 9.00 GiB" in text
    assert "→ holds the graph of `loss`: append loss.item() or loss.detach()" in text
    assert "h.* × 12  GPT2Block" in text
    assert "cuda:1" in text
    assert "  before: optimizer state" in text
    assert "• Other processes' memory" in text
    assert "private pools" not in text  # unknown: not 0


def test_the_dimension_asked_for_is_first() -> None:
    heads = {
        "category": "At the peak",
        "line": "Cell  ",
        "module": "Modules at",
        "op": "Operations",
    }
    assert "Operations" not in report_text(gpu())
    for by in DIMENSIONS:
        text = report_text(dataclasses.replace(gpu(), detail=by))
        places = [text.index(head) for head in heads.values() if head in text]
        assert text.index(heads[by]) == min(places)


def test_comparison_and_error() -> None:
    text = report_text(compared())
    assert "Compared: peak −2.00 GiB against “plain”: 9.64 GiB → 7.64 GiB; 1.31 s" in text
    assert "The cell ended with KeyboardInterrupt" in text
    assert "(no holder found)" in text


def test_a_report_of_nothing_says_so() -> None:
    text = report_text(empty())
    assert "No memory was allocated on this device." in text
    assert "Cell" not in text


def test_truncated_and_overflowing_reports_tell_it() -> None:
    many = tuple(SourceLine(n, f"x{n} = make()", n, 0) for n in range(1, 500))
    text = report_text(dataclasses.replace(gpu(), truncated=True, source=many))
    assert "The recording's beginning was overwritten" in text
    assert "lines of the source. The sums are unchanged." in text


def test_source_and_what_was_before_add_up_to_the_peak() -> None:
    report = gpu()
    lines = sum(line.peak_bytes for line in report.source)
    assert lines + sum(row.bytes for row in before_rows(report)) == report.peak_bytes


def test_terminal_sequences_do_not_reach_the_terminal() -> None:
    hostile = dataclasses.replace(
        gpu(),
        device_name="\x1b]0;title\x07",
        source=(SourceLine(1, "a\x1b[31m\u202eb\ud800\x00\tc", 1, 0),),
    )
    text = report_text(hostile)
    assert not {"\x1b", "\x07", "\x00", "\u202e", "\ud800", "\t"} & set(text)
    text.encode()


def test_rows_as_a_table() -> None:
    text = rows_text((Row("activation", 3 * MIB, 2), Row("漢字", MIB, 1)), 4 * MIB)
    first, second = text.split("\n")
    assert "3.00 MiB     75 %  ███████████████" in first
    assert width_of(second.split("1.00 MiB")[0]) == width_of(first.split("3.00 MiB")[0])


@given(st.integers(0, 1 << 60), st.integers(0, 1 << 60), st.integers(1, 60))
def test_bars_tell_something_from_nothing(part: int, whole: int, width: int) -> None:
    text = bar(part, whole, width)
    assert len(text) <= width
    assert bool(text) == (part > 0 and whole > 0)


def test_bars_are_proportional() -> None:
    assert bar(1, 1) == "█" * BAR
    assert bar(1, 2) == "█" * (BAR // 2)
    assert bar(1, 1 << 40) == "▏"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.integers(2, 30))
def test_fit_is_exact(text: str, width: int) -> None:
    assert width_of(fit(text, width)) == width


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4 ms"),
        (0.012, "12 ms"),
        (0.9999, "1.00 s"),
        (12.34, "12.3 s"),
        (123.4, "2 min 3 s"),
        (7_325.0, "2 h 2 min"),
    ],
)
def test_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_changes_and_shares() -> None:
    assert format_change(0) == "±0"
    assert format_change(-2 * MIB) == "−2.00 MiB"
    assert [format_percent(x) for x in (0, 0.0001, 0.045, 0.0996, 1)] == [
        "0 %",
        "< 0.1 %",
        "4.5 %",
        "10 %",
        "100 %",
    ]
