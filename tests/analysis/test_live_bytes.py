"""Live bytes and the peak, against a count by hand and against brute force."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.analysis.live import START, alive, live_bytes, peak_event, seconds
from support.traces import Made, trace_of

BLOCKS = [
    Made(size=100),
    Made(size=50, goes=2),
    Made(size=30, comes=1),
    Made(size=80, comes=3, goes=5),
    Made(size=7, comes=6),
]


def test_live_bytes_begin_with_what_was_there() -> None:
    assert live_bytes(trace_of(BLOCKS)).tolist() == [150, 180, 130, 210, 130, 137]


def test_peak_is_the_first_of_the_highest_moments() -> None:
    trace = trace_of(BLOCKS)
    assert peak_event(trace) == 2
    assert seconds(trace, 2) == 0.003
    assert trace_of(BLOCKS).blocks.size_bytes[alive(trace, 2)].tolist() == [100, 30, 80]


def test_nothing_happened() -> None:
    trace = trace_of([Made(size=5)])
    assert peak_event(trace) == START
    assert seconds(trace, START) == 0.0
    assert live_bytes(trace).tolist() == [5]


def test_what_only_goes_peaks_at_the_start() -> None:
    trace = trace_of([Made(size=5, goes=1), Made(size=6)])
    assert peak_event(trace) == START
    assert alive(trace, START).tolist() == [True, True]


@st.composite
def programs(draw: st.DrawFn) -> list[Made]:
    blocks = []
    for _ in range(draw(st.integers(0, 30))):
        comes = draw(st.none() | st.integers(1, 40))
        goes = draw(st.none() | st.integers((comes or 0) + 1, 60))
        blocks.append(Made(size=draw(st.integers(1, 1000)), comes=comes, goes=goes))
    return blocks


@given(programs())
def test_what_lives_adds_up_to_the_curve_at_every_moment(blocks: list[Made]) -> None:
    trace = trace_of(blocks)
    curve = live_bytes(trace).tolist()
    for event in range(START, len(trace.change_bytes)):
        assert int(trace.blocks.size_bytes[alive(trace, event)].sum()) == curve[event + 1]
    assert max(curve) == curve[peak_event(trace) + 1]
