"""The parts of the peak: named as a user would, and adding up exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.analysis.attribution import rows_at
from jupyter_vram.analysis.categories import categorize
from jupyter_vram.analysis.live import live_bytes, peak_event
from jupyter_vram.model.report_data import DIMENSIONS, By
from jupyter_vram.model.units import CATEGORIES
from support.traces import Made, trace_of

BLOCKS = [
    Made(size=100, identity="parameter", owner="model.a.weight", owner_module="model.a"),
    Made(size=9),
    Made(size=40, comes=1, line=2, module="model.a", op="aten::linear", saved=True),
    Made(size=30, comes=2, line=2, inner="In [1]:7", module="model.b", op="aten::add", saved=True),
    Made(size=20, comes=3, phase="other"),
    Made(
        size=5,
        comes=4,
        line=3,
        identity="gradient",
        owner="model.a.weight.grad",
        owner_module="model.a",
        module="model.b",
        op="AddBackward0",
        phase="backward",
    ),
]


def rows(by: By) -> list[tuple[str, int, int]]:
    trace = trace_of(BLOCKS)
    found = rows_at(trace, categorize(trace), peak_event(trace), by)
    return [(row.name, row.bytes, row.count) for row in found]


def test_by_category() -> None:
    assert rows("category") == [
        ("parameter", 100, 1),
        ("activation", 70, 2),
        ("unknown", 29, 2),
        ("gradient", 5, 1),
    ]


def test_by_line_what_was_there_before_has_no_line() -> None:
    assert rows("line") == [
        ("before: parameter", 100, 1),
        ("line 2", 40, 1),
        ("line 2 › In [1]:7", 30, 1),
        ("(no line)", 20, 1),
        ("before: unknown", 9, 1),
        ("line 3", 5, 1),
    ]


def test_by_module_a_gradient_belongs_to_its_parameters_module() -> None:
    assert rows("module") == [
        ("model.a", 145, 3),
        ("model.b", 30, 1),
        ("(no module)", 29, 2),
    ]


def test_by_operation() -> None:
    assert rows("op")[:2] == [("before: parameter", 100, 1), ("aten::linear", 40, 1)]
    assert ("(no operation)", 20, 1) in rows("op")


made = st.builds(
    Made,
    size=st.integers(1, 10**12),
    comes=st.none() | st.integers(1, 20),
    goes=st.none() | st.integers(21, 40),
    line=st.none() | st.integers(1, 5),
    module=st.sampled_from(["", "model", "model.a", "model.b"]),
    op=st.sampled_from(["", "aten::mul"]),
    identity=st.none() | st.sampled_from(CATEGORIES[:5]),
    owner=st.none() | st.sampled_from(["x", "y"]),
    owner_module=st.sampled_from(["", "model.a"]),
    saved=st.booleans(),
    within=st.booleans(),
)


@given(st.lists(made, max_size=40))
def test_the_parts_of_every_dimension_add_up_to_the_peak(blocks: list[Made]) -> None:
    trace = trace_of(blocks)
    category, peak = categorize(trace), peak_event(trace)
    for by in DIMENSIONS:
        found = rows_at(trace, category, peak, by)
        assert sum(row.bytes for row in found) == int(live_bytes(trace).max())
        assert [row.bytes for row in found] == sorted((row.bytes for row in found), reverse=True)
        assert len({row.name for row in found}) == len(found)
