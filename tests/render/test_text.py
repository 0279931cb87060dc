"""What ``%vram`` shows: figures for people, and a sentence wherever there is none."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport
from jupyter_vram.render.text import (
    HEADINGS,
    LEGEND,
    NO_DEVICE,
    UNKNOWN,
    format_bytes,
    report_html,
    report_text,
    table,
)

MIB = 1 << 20
GIB = 1 << 30

BARE = KernelReport(
    pid=7, written_at=1e9, period_s=0.5, package_version="0.1.0", rss_bytes=300 * MIB
)
FIRST = AllocatorStats(
    device_id="GPU-1111",
    ordinal=0,
    allocated_bytes=3 * GIB // 2,
    reserved_bytes=2 * GIB,
    peak_allocated_bytes=13 * GIB,
    peak_reserved_bytes=14 * GIB,
)
SECOND = AllocatorStats(device_id="GPU-2222", ordinal=10, allocated_bytes=0, reserved_bytes=2 * MIB)
ON_GPUS = dataclasses.replace(BARE, torch_state="cuda_initialized", devices=(FIRST, SECOND))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, UNKNOWN),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (10 * 1024, "10.0 KiB"),
        (100 * 1024, "100 KiB"),
        (MIB - 1, "1.00 MiB"),
        (MIB, "1.00 MiB"),
        (10**9, "954 MiB"),
        (GIB, "1.00 GiB"),
        (int(13.8 * GIB), "13.8 GiB"),
        (80 * GIB, "80.0 GiB"),
        (1023 * GIB, "1023 GiB"),
        (5 * 1024 * GIB, "5.00 TiB"),
        (2**63, "8388608 TiB"),
        (-3 * MIB, "-3.00 MiB"),
    ],
)
def test_bytes_for_people(count: int | None, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(0, 2**63))
def test_bytes_for_people_are_never_far_off(count: int) -> None:
    figure, unit = format_bytes(count).split()
    powers = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    assert float(figure) * powers[unit] == pytest.approx(count, rel=0.0051)
    assert float(figure) < 1024 or unit == "TiB"


def test_a_table_is_aligned() -> None:
    assert table(("device", "a", "bb"), [("x", "1.00 GiB", "2"), ("longest", "5", "30")]) == (
        "device          a  bb\nx        1.00 GiB   2\nlongest         5  30"
    )


def test_a_kernel_on_two_gpus() -> None:
    text = report_text(ON_GPUS)
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines() if "cuda:" in line]
    assert rows == [
        ["cuda:0", "1.50 GiB", "512 MiB", "2.00 GiB", "13.0 GiB", "14.0 GiB"],
        ["cuda:10", "0 B", "2.00 MiB", "2.00 MiB", UNKNOWN, UNKNOWN],
    ]
    heading = next(line for line in text.splitlines() if line.startswith("device"))
    assert re.split(r" {2,}", heading) == list(HEADINGS)
    assert text.endswith("Host memory (resident memory of this process): 300 MiB")


def test_lines_fit_a_terminal() -> None:
    for report in (ON_GPUS, BARE, dataclasses.replace(BARE, problem="word " * 60)):
        assert max(map(len, report_text(report).splitlines())) <= 90


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (BARE, "torch is not imported"),
        (dataclasses.replace(BARE, torch_state="no_cuda_build"), "install a CUDA build of torch"),
        (
            dataclasses.replace(BARE, torch_state="cuda_not_initialized"),
            "torch has not used CUDA in this kernel yet",
        ),
        (dataclasses.replace(BARE, torch_state="cuda_initialized"), NO_DEVICE),
        (
            dataclasses.replace(BARE, torch_state="no_cuda_build", problem="It is <lost> & gone."),
            "It is <lost> & gone.",
        ),
    ],
)
def test_without_figures_it_says_why(report: KernelReport, sentence: str) -> None:
    for shown in (" ".join(report_text(report).split()), Page(report_html(report)).text):
        assert sentence in shown
        assert "Host memory (resident memory of this process): 300 MiB" in shown


def test_a_device_that_fails_does_not_hide_the_others() -> None:
    report = dataclasses.replace(ON_GPUS, problem="torch could not tell (GPU is lost).")
    for shown in (report_text(report), Page(report_html(report)).text):
        assert "GPU is lost" in shown
        assert "13.0 GiB" in shown


def test_unknown_resident_memory_is_no_zero() -> None:
    unknown = dataclasses.replace(BARE, rss_bytes=None)
    assert report_text(unknown).endswith(UNKNOWN)
    assert Page(report_html(unknown)).text.endswith(UNKNOWN)


def test_the_html_is_a_plain_table() -> None:
    page = Page(report_html(ON_GPUS))
    assert page.rows[0] == list(HEADINGS)
    assert page.rows[1][:2] == ["cuda:0", "1.50 GiB"]
    assert len(page.rows) == 3
    assert LEGEND in page.text
    assert page.tags <= {"p", "table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert page.attributes <= {"style", "scope"}


def test_what_is_saved_in_a_notebook_names_no_device() -> None:
    for shown in (report_text(ON_GPUS), report_html(ON_GPUS)):
        assert "GPU-1111" not in shown


class Page(HTMLParser):
    """A piece of HTML: its text, table, and tags. Fails if one is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1] in ("th", "td"):
            self.rows[-1][-1] += data
