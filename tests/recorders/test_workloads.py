"""What people run in notebooks under ``%%vram``: every figure beside the truth.

Peak, start, end and what stays are torch's own profiler's of the same cells, run apart
(`support.profiled`); parameters, gradients and the optimizer's state are counted by hand.
"""

from __future__ import annotations

import gc
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import jupyter_vram
from jupyter_vram.analysis.live import alive, peak_event
from jupyter_vram.model.report_data import DIMENSIONS
from jupyter_vram.model.trace import NONE
from support.notebook import Notebook, open_notebook
from support.workloads import WORKLOADS, Workload, prelude

if TYPE_CHECKING:
    from jupyter_vram.model.trace import Trace
    from jupyter_vram.report import Report
    from support.profiled import Truth

torch = pytest.importorskip("torch")

ENOUGH = 0.98
WAYS = {
    # way → (which truth, what stands above the cell)
    "whole": ("whole", "%%vram\n"),
    "first": ("first", "%%vram\n"),
    "timed": ("first", "%%vram\n%%time\n"),
    "second": ("second", "%%vram\n"),
}
IDENTITIES = ("parameter", "buffer", "gradient", "optimizer state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One workload's report, as far as it is looked at."""

    start_bytes: int
    peak_bytes: int
    end_bytes: int
    retained_bytes: int
    categories: Mapping[str, int]
    sums: Mapping[str, int]
    """By dimension: all its rows."""
    during_bytes: int
    """At the peak, allocated during the recording."""
    with_line_bytes: int
    """Of those: with a line of the recorded cell."""
    before_bytes: int
    named_bytes: int
    """Of those: with an owner."""
    by_text: Mapping[str, int]
    """At the peak, by the text of the outermost line of the recorded cell that led there."""
    kept: Mapping[str, int]
    """At the end, by the variable that holds it."""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with suppress(ImportError):
        import transformers.models.bert.modeling_bert
        import transformers.models.gpt2.modeling_gpt2
        import transformers.models.vit.modeling_vit  # noqa: F401
    with open_notebook(tmp_path_factory.mktemp("ipython")) as opened:
        gc.collect()
        gc.freeze()  # else each collection looks at all that the imports made
        try:
            yield opened
        finally:
            gc.unfreeze()
    torch.set_num_threads(threads)
    _record.cache_clear()


@cache
def _record(notebook: Notebook, workload: Workload, way: str) -> Seen:
    """Run the cells of a workload, the last of them recorded."""
    notebook.forget()
    foreign = _foreign_bytes()
    notebook.run(prelude())
    if way != "whole":
        notebook.run(workload.setup)
    if way == "second":
        notebook.run(workload.step)
    cell = WAYS[way][1] + (workload.whole if way == "whole" else workload.step)
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        notebook.run(cell)
    finally:
        if collects:
            gc.enable()
    report = jupyter_vram.last_report()
    assert report is not None
    trace = report._trace
    assert trace is not None
    at_peak = alive(trace, peak_event(trace))
    sizes = trace.blocks.size_bytes * at_peak
    during = trace.blocks.alloc_event != NONE
    by_text = _by_text(trace, sizes, during, cell.splitlines())
    return Seen(
        start_bytes=report.start_bytes - foreign,
        peak_bytes=report.peak_bytes - foreign,
        end_bytes=report.end_bytes - foreign,
        retained_bytes=report.retained_bytes,
        categories={row.name: row.bytes for row in report.at_peak("category")},
        sums={by: sum(row.bytes for row in report.at_peak(by)) - foreign for by in DIMENSIONS},
        during_bytes=int(sizes[during].sum()),
        with_line_bytes=sum(by_text.values()),
        before_bytes=int(sizes[~during].sum()) - foreign,
        named_bytes=int(sizes[~during & (trace.blocks.owner != NONE)].sum()) - foreign,
        by_text=by_text,
        kept=_kept(report),
    )


def _kept(report: Report) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in report.to_dict()["kept"]:
        found[re.split(r"[.\[]", row["name"] or "")[0]] += row["bytes"]
    return dict(found)


def _by_text(trace: Trace, sizes: Any, during: Any, cell: list[str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in np.flatnonzero(during & (sizes > 0)).tolist():
        context = trace.blocks.context[row]
        lines = trace.contexts[context].lines if context != NONE else ()
        line = next((line for line in lines if not line.source), None)
        if line is not None:
            text = cell[line.number - 1].strip()
            assert text, f"line {line.number} of the cell is empty"
            found[text] += int(sizes[row])
    return dict(found)


def _foreign_bytes() -> int:
    """What lives already, of whoever ran in this process before."""
    gc.collect()
    storages = {}
    for value in gc.get_objects():
        if issubclass(type(value), torch.Tensor) and value.device.type == "cpu":
            storage = value.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _truth(workload: Workload, way: str) -> Truth:
    from support.profiled import profile

    return profile(workload)[WAYS[way][0]]


def _skip_without_transformers(workload: Workload) -> None:
    if "transformers" in workload.setup:
        pytest.importorskip("transformers")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_byte_of_a_workload(name: str, way: str, notebook: Notebook) -> None:
    workload = WORKLOADS[name]
    _skip_without_transformers(workload)
    truth = _truth(workload, way)
    seen = _record(notebook, workload, way)

    assert seen.peak_bytes == truth.peak_bytes
    assert seen.start_bytes == truth.start_bytes
    assert seen.end_bytes == truth.end_bytes
    assert seen.retained_bytes == truth.retained_bytes
    if way != "whole":
        assert seen.retained_bytes == truth.by_hand["retained"]

    for category in IDENTITIES:
        assert seen.categories.get(category, 0) == truth.at_peak[category], category
    assert set(seen.sums.values()) == {seen.peak_bytes}

    assert seen.with_line_bytes >= ENOUGH * seen.during_bytes
    assert seen.named_bytes >= ENOUGH * seen.before_bytes
    assert seen.categories.get("unknown", 0) <= (1 - ENOUGH) * seen.peak_bytes


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_lines_whatever_stands_above_them(name: str, notebook: Notebook) -> None:
    workload = WORKLOADS[name]
    _skip_without_transformers(workload)
    first = _record(notebook, workload, "first").by_text
    assert _record(notebook, workload, "timed").by_text == first
    whole = _record(notebook, workload, "whole").by_text
    step = {line.strip() for line in workload.step.splitlines()}
    assert {text: size for text, size in whole.items() if text in step} == first


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_hand_count_is_the_profilers(name: str) -> None:
    workload = WORKLOADS[name]
    _skip_without_transformers(workload)
    for what in ("first", "second"):
        truth = _truth(workload, what)
        assert truth.retained_bytes == truth.by_hand["retained"]
        assert truth.at_peak["parameter"] == truth.by_hand["parameter"]
        assert truth.at_peak["buffer"] == truth.by_hand["buffer"]
        for category in ("gradient", "optimizer state"):
            assert truth.at_peak[category] <= truth.by_hand[category]
    # From before the second step: all of it, by hand.
    assert truth.at_peak["optimizer state"] == truth.by_hand["optimizer state"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_stays_has_a_holder(name: str, notebook: Notebook) -> None:
    workload = WORKLOADS[name]
    _skip_without_transformers(workload)
    for way in ("first", "whole"):
        seen = _record(notebook, workload, way)
        assert sum(seen.kept.values()) == seen.retained_bytes
        assert seen.kept.get("", 0) <= (1 - ENOUGH) * seen.retained_bytes


def test_the_leak_is_named(notebook: Notebook) -> None:
    seen = _record(notebook, WORKLOADS["leak"], "first")
    assert seen.kept == {"losses": seen.retained_bytes}
