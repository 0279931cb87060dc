"""Every way in which a block gets its category."""

from __future__ import annotations

import dataclasses

import pytest

from jupyter_vram.analysis.categories import categorize
from jupyter_vram.model.units import CATEGORIES
from support.traces import Made, trace_of


@pytest.mark.parametrize(
    ("made", "category"),
    [
        (Made(size=1, identity="parameter", owner="model.weight"), "parameter"),
        (Made(size=1, comes=1, identity="gradient", saved=True), "gradient"),
        (Made(size=1, comes=1, identity="optimizer state", phase="optimizer"), "optimizer state"),
        (Made(size=1, comes=1, goes=2, within=True, saved=True), "temporary"),
        (Made(size=1, comes=1, saved=True, op="aten::mul"), "activation"),
        (Made(size=1, comes=1, phase="backward", op="MulBackward0"), "temporary"),
        (Made(size=1, comes=1, phase="optimizer", op="aten::sqrt"), "temporary"),
        (Made(size=1, comes=1, phase="other", op="aten::randn"), "input"),
        (Made(size=1, comes=1, phase="other", line=1), "input"),
        (Made(size=1, comes=1, goes=2, phase="other", op="aten::mul"), "temporary"),
        (Made(size=1, comes=1, phase="other", op="aten::mul", owner="k"), "input"),
        (Made(size=1, comes=1, goes=2, module="model", op="aten::zeros"), "temporary"),
        (Made(size=1, comes=1, module="model", op="aten::zeros"), "activation"),
        (Made(size=1, comes=1, phase="other"), "unknown"),
        (Made(size=1), "unknown"),
        (Made(size=1, owner="x"), "input"),
        (Made(size=1, owner="losses[0]", through_graph=True), "activation"),
    ],
)
def test_category(made: Made, category: str) -> None:
    assert [CATEGORIES[row] for row in categorize(trace_of([made]))] == [category]


def test_a_snapshot_tells_nothing_of_autograd() -> None:
    trace = trace_of([Made(size=1, comes=1, goes=2, line=3, op="aten::mul")])
    snapshot = dataclasses.replace(trace, recorder="snapshot")
    assert [CATEGORIES[row] for row in categorize(snapshot)] == ["unknown"]
