"""Bytes, tables and reports as text and as HTML."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.analysis.kernel_reasons import NO_CUDA_BUILD, NOT_IMPORTED, NOT_INITIALIZED
from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport, TorchState
from jupyter_vram.render.text import (
    HEADINGS,
    NO_DEVICE,
    UNKNOWN,
    format_bytes,
    report_html,
    report_text,
    table,
)

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

REPORT = KernelReport(
    pid=1,
    written_at=1.0,
    period_s=0.5,
    package_version="1",
    rss_bytes=3 * GIB // 2,
    torch_state="cuda_initialized",
    devices=(
        AllocatorStats(
            device_id="GPU-secret-uuid",
            ordinal=0,
            allocated_bytes=4 * GIB,
            reserved_bytes=5 * GIB,
            peak_allocated_bytes=6 * GIB,
            peak_reserved_bytes=7 * GIB,
        ),
        AllocatorStats(device_id="MIG-2", ordinal=1, allocated_bytes=512, reserved_bytes=2 * MIB),
    ),
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, UNKNOWN),
        (0, "0 B"),
        (1023, "1023 B"),
        (KIB, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (MIB - 1, "1.00 MiB"),
        (1023 * MIB + 400 * KIB, "1023 MiB"),
        (1023 * MIB + 600 * KIB, "1.00 GiB"),
        (10 * GIB - 1, "10.0 GiB"),
        (int(13.84 * GIB), "13.8 GiB"),
        (100 * GIB - 1, "100 GiB"),
        (int(139.8 * GIB), "140 GiB"),
        (3 * TIB, "3.00 TiB"),
        (5000 * TIB, "5000 TiB"),
    ],
)
def test_format_bytes(count: int | None, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 2**50))
def test_a_formatted_figure_is_close_and_short(count: int) -> None:
    figure, unit = format_bytes(count).split()
    factor = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}[unit]
    assert float(figure) * factor == pytest.approx(count, rel=0.0051)
    assert len(figure) <= 4


def test_a_table_is_aligned() -> None:
    assert table(("device", "bytes"), [("cuda:0", "1"), ("cuda:10", "1234567")]).split("\n") == [
        "device     bytes",
        "cuda:0         1",
        "cuda:10  1234567",
    ]


def test_every_figure_says_what_it_is() -> None:
    lines = report_text(REPORT).split("\n")
    head = next(line for line in lines if line.startswith("device"))
    row = lines[lines.index(head) + 1]
    for heading, figure in zip(
        HEADINGS[1:], ["4.00 GiB", "1.00 GiB", "5.00 GiB", "6.00 GiB", "7.00 GiB"], strict=True
    ):
        end = head.index(f"  {heading}  " if heading == "reserved" else heading)
        end += len(f"  {heading}" if heading == "reserved" else heading)
        assert row[:end].endswith(figure)
    assert lines[-1] == "Host memory (resident memory of this process): 1.50 GiB"


def test_an_unknown_figure_is_a_dash_never_a_zero() -> None:
    row = next(line for line in report_text(REPORT).split("\n") if line.startswith("cuda:1"))
    assert row.split()[-2:] == [UNKNOWN, UNKNOWN]
    unknown = dataclasses.replace(REPORT, rss_bytes=None)
    assert report_text(unknown).endswith(f": {UNKNOWN}")


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("not_imported", NOT_IMPORTED),
        ("no_cuda_build", NO_CUDA_BUILD),
        ("cuda_not_initialized", NOT_INITIALIZED),
        ("cuda_initialized", NO_DEVICE),
    ],
)
def test_without_figures_it_says_why(state: TorchState, sentence: str) -> None:
    report = dataclasses.replace(REPORT, torch_state=state, devices=())
    text = report_text(report)
    assert " ".join(text.split()).startswith(sentence)
    assert max(map(len, text.split("\n"))) <= 80
    assert "Host memory" in text
    assert sentence in report_html(report).replace("&#x27;", "'")


def test_a_problem_stands_beside_what_could_be_read() -> None:
    text = report_text(dataclasses.replace(REPORT, problem="The GPU is lost."))
    assert text.startswith("The GPU is lost.\n\n")
    assert "4.00 GiB" in text


def test_output_that_is_saved_names_no_machine() -> None:
    assert "secret" not in report_text(REPORT) + report_html(REPORT)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_html_is_a_whole_table_with_the_same_figures() -> None:
    tags = Tags()
    tags.feed(report_html(REPORT))
    assert tags.open == []
    assert tags.seen.count("tr") == 3
    assert set(tags.seen) == {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert [text for text in tags.texts if text in HEADINGS] == list(HEADINGS)
    assert [text for text in tags.texts if "GiB" in text][:5] == [
        *("4.00 GiB", "1.00 GiB", "5.00 GiB"),
        *("6.00 GiB", "7.00 GiB"),
    ]


def test_a_problem_is_text_in_the_html() -> None:
    report = dataclasses.replace(REPORT, problem="<script>alert(1)</script>")
    assert "<script" not in report_html(report)
