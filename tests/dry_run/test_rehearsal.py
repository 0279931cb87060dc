"""A dry run brings back what a recording of the real run would: lines, modules, categories."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch

from jupyter_vram.dry_run.program import CallProgram, CellProgram, with_values
from jupyter_vram.dry_run.rehearsal import Setting, rehearse
from jupyter_vram.model.cell_code import CellCode
from jupyter_vram.report import Report
from support.children import GPU, in_child, rehearsed

CELL = """\
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
model = model.to("cuda")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.randn(rows, 256, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WEIGHTS = 4 * (256 * 512 + 512 + 512 * 8 + 8)


def cell_program(text: str, namespace: dict[str, Any], **more: Any) -> CellProgram:
    cell = CellCode(text, 3, 1, frozenset({"<cell>"}))
    return CellProgram(cell, text, "<cell>", namespace, **more)


def report_of(text: str, **names: Any) -> Report:
    program = cell_program(text, {"torch": torch, **names})
    outcome = in_child(lambda: rehearse(program, Setting(GPU)))
    assert outcome.failure is None, outcome.failure
    assert outcome.recording is not None
    return Report.from_recording(outcome.recording)


def test_report_says_whose_the_bytes_are() -> None:
    report = report_of(CELL, rows=64)
    data = report.to_dict()
    assert (data["recorder"], data["bytes_kind"], report.device) == ("dry_run", "tensor", "cuda:0")
    categories = {row.name: row.bytes for row in report.at_peak("category")}
    assert categories["parameter"] == WEIGHTS
    assert categories["optimizer state"] == 2 * WEIGHTS
    assert categories["gradient"] == WEIGHTS
    # The %%vram line above the cell counts.
    lines = {row.name: row.bytes for row in report.at_peak("line")}
    assert lines["line 3"] == WEIGHTS
    assert lines["line 9"] >= 2 * WEIGHTS
    modules = {row.name for row in report.at_peak("module")}
    assert {"model.0", "model.2"} <= modules
    assert sum(row.bytes for row in report.at_peak("op")) == report.peak_bytes


def test_peak_is_that_of_the_same_cell_run_for_real() -> None:
    from jupyter_vram import record

    text = CELL.replace('device="cuda"', 'device="cpu"').replace('.to("cuda")', "")
    program = cell_program(text, {"torch": torch, "rows": 64})
    outcome = in_child(lambda: rehearse(program, Setting(None)))
    assert outcome.failure is None
    assert outcome.recording is not None
    predicted = Report.from_recording(outcome.recording)
    with record() as recording:
        exec(text, {"torch": torch, "rows": 64})
    real = recording.report
    assert predicted.device == real.device == "cpu"
    assert predicted.peak_bytes == pytest.approx(real.peak_bytes, rel=0.001)
    for row in real.at_peak("category"):
        same = {other.name: other.bytes for other in predicted.at_peak("category")}
        assert same[row.name] == pytest.approx(row.bytes, rel=0.01), row.name


def test_variables_models_and_random_state_stay_as_they_are() -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    before = [tensor.clone() for tensor in (*model.parameters(), *map(_grad, model.parameters()))]
    random = torch.get_rng_state()
    namespace = {"torch": torch, "model": model, "optimizer": optimizer}
    names = set(namespace)
    text = (
        "loss = model(torch.randn(2, 4)).sum()\nloss.backward()\n"
        "optimizer.step()\noptimizer.zero_grad()\n"
    )
    outcome = in_child(lambda: rehearse(cell_program(text, namespace), Setting(GPU)))
    assert outcome.failure is None, outcome.failure
    after = (*model.parameters(), *map(_grad, model.parameters()))
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert torch.equal(random, torch.get_rng_state())
    assert set(namespace) - {"__builtins__"} == names


def _grad(parameter: torch.Tensor) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def test_what_was_there_before_belongs_to_its_owner() -> None:
    model = torch.nn.Linear(256, 256, bias=False)
    program = cell_program(
        "model.cuda()\ny = model(torch.zeros(1, 256, device='cuda'))\n",
        {"torch": torch, "model": model},
    )
    outcome = in_child(lambda: rehearse(program, Setting(GPU)))
    assert outcome.recording is not None
    host, device = outcome.recording.traces
    assert host.device == "cpu"
    assert host.start_bytes >= 256 * 256 * 4
    report = Report.from_recording(outcome.recording, device.device)
    assert {row.name: row.bytes for row in report.at_peak()}["parameter"] == 256 * 256 * 4


def test_failure_names_the_line_and_keeps_what_ran_until_then() -> None:
    text = "x = torch.zeros(3, 3, device='cuda')\ny = torch.zeros(2, 2, device='cuda')\nx @ y\n"
    program = cell_program(text, {"torch": torch})
    outcome = in_child(lambda: rehearse(program, Setting(GPU)))
    assert outcome.failure is not None
    assert outcome.failure.kind == "RuntimeError"
    assert outcome.failure.line == 4
    assert "3" in outcome.failure.message
    assert outcome.recording is not None
    assert Report.from_recording(outcome.recording).peak_bytes == 36 + 16


def test_lines_of_a_function_are_those_of_its_file() -> None:
    def step() -> None:
        x = torch.zeros(1000, device="cuda")
        x * 2

    outcome = rehearsed(step)
    assert outcome.recording is not None
    lines = {row.name for row in Report.from_recording(outcome.recording).at_peak("line")}
    first = step.__code__.co_firstlineno
    assert lines == {f"test_rehearsal.py:{first + 1}", f"test_rehearsal.py:{first + 2}"}


def test_cell_awaits() -> None:
    report = report_of(
        "import asyncio\nawait asyncio.sleep(0)\nx = torch.zeros(1000, device='cuda')\n"
    )
    assert report.peak_bytes == 4000


def test_cell_awaits_in_a_kernel_whose_loop_runs() -> None:
    async def kernel() -> Report:
        return report_of("import asyncio\nawait asyncio.sleep(0)\nx = torch.ones(5, device='cuda')")

    assert asyncio.run(kernel()).peak_bytes == 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch = 4\nx = batch", 7),
        ("if True:\n    batch = 2 * 2\nx = batch", 7),
        ("x = batch", 7),
        ("def f():\n    batch = 4\n    return batch\nx = f()", 4),
        ("batch = other = 4\nx = batch", 4),
    ],
)
def test_variables_take_other_values(text: str, expected: int) -> None:
    import ast

    namespace: dict[str, Any] = {"batch": 7}
    exec(compile(with_values(ast.parse(text), {"batch": 7}), "<cell>", "exec"), namespace)
    assert namespace["x"] == expected


def test_parameters_of_a_function_take_other_values() -> None:
    def step(rows: int = 1) -> None:
        torch.zeros(rows, 250, device="cuda")

    program = CallProgram(step, values={"rows": 8})
    outcome = in_child(lambda: rehearse(program, Setting(GPU)))
    assert outcome.recording is not None
    assert Report.from_recording(outcome.recording).peak_bytes == 8000
