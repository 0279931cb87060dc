"""What stayed: by holder, many of a kind as one, and what to do about a graph."""

from __future__ import annotations

from jupyter_vram.analysis.categories import categorize
from jupyter_vram.analysis.kept import kept_rows
from jupyter_vram.model.report_data import Kept
from support.traces import Made, trace_of


def kept(*blocks: Made) -> tuple[Kept, ...]:
    trace = trace_of(blocks)
    return kept_rows(trace, categorize(trace))


def test_only_what_came_during_the_recording_and_stayed() -> None:
    found = kept(
        Made(size=10, owner="old"),
        Made(size=20, comes=1, goes=2, line=1, owner="gone"),
        Made(size=30, comes=1, line=4, phase="other", op="aten::randn", owner="cache"),
    )
    assert [(row.name, row.bytes, row.category, row.line, row.hint) for row in found] == [
        ("cache", 30, "input", 4, None)
    ]


def test_a_graph_says_what_to_do() -> None:
    (row,) = kept(
        Made(size=30, comes=1, line=3, saved=True, owner="history[0]", through_graph=True)
    )
    assert row.name == "history[0]"
    assert row.hint is not None
    assert ".detach()" in row.hint


def test_few_elements_have_their_names_and_many_are_one() -> None:
    some = [Made(size=1, comes=n, saved=True, owner=f"a[{n}]") for n in range(1, 4)]
    many = [Made(size=2, comes=n, saved=True, owner=f"b[{n}]") for n in range(1, 8)]
    assert [(row.name, row.count) for row in kept(*some, *many)] == [
        ("b[…]", 7),
        ("a[1]", 1),
        ("a[2]", 1),
        ("a[3]", 1),
    ]


def test_the_state_of_an_optimizer_is_one() -> None:
    blocks = [
        Made(
            size=4,
            comes=n,
            identity="optimizer state",
            owner=f"opt.state[model.{n}.weight]['exp_avg']",
            owner_module=f"model.{n}",
        )
        for n in range(1, 6)
    ]
    assert [(row.name, row.bytes) for row in kept(*blocks)] == [("opt.state", 20)]


def test_what_nobody_is_known_to_hold() -> None:
    (row,) = kept(Made(size=4, comes=1, saved=True))
    assert row.name is None
