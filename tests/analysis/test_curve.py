"""The curve: its bands add up, and thinning never loses the peak."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.analysis.categories import categorize
from jupyter_vram.analysis.curve import curve, spans
from jupyter_vram.analysis.live import live_bytes
from jupyter_vram.model.trace import PhaseSpan
from support.traces import START_NS, STEP_NS, Made, trace_of

sizes = st.lists(
    st.tuples(st.integers(1, 10**9), st.integers(1, 400), st.integers(1, 400)), max_size=120
)


@given(sizes, st.integers(1, 20))
def test_bands_add_up_and_the_peak_is_there(
    program: list[tuple[int, int, int]], buckets: int
) -> None:
    blocks = [
        Made(size=size, comes=comes, goes=comes + lasts, saved=bool(size % 2), op="aten::mul")
        for size, comes, lasts in program
    ]
    trace = trace_of([Made(size=77, owner="x"), *blocks])
    live = live_bytes(trace)
    made = curve(trace, categorize(trace), buckets)
    totals = np.sum([series.bytes for series in made.series], axis=0)
    assert totals.max() == live.max()
    assert totals[0] == live[0]
    assert totals[-1] == live[-1]
    assert len(made.time_s) <= 2 * buckets + 5 or len(program) * 2 <= 2 * buckets
    assert list(made.time_s) == sorted(made.time_s)
    assert set(totals.tolist()) <= set(live.tolist())
    assert all(len(series.bytes) == len(made.time_s) for series in made.series)


def test_nothing_recorded() -> None:
    trace = trace_of([])
    made = curve(trace, categorize(trace))
    assert made.time_s == (0.0, 1.0)
    assert made.series == ()


def test_phases_of_no_length_and_other_are_left_out() -> None:
    phases = (
        PhaseSpan("forward", START_NS, START_NS + 5 * STEP_NS),
        PhaseSpan("other", START_NS, START_NS + 9 * STEP_NS),
        PhaseSpan("backward", START_NS + 5 * STEP_NS, START_NS + 8 * STEP_NS),
    )
    found = spans(trace_of([], phases=phases))
    assert [(span.name, span.start_s, span.end_s) for span in found] == [
        ("forward", 0.0, 0.005),
        ("backward", 0.005, 0.008),
    ]
