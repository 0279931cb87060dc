"""``%%vram --dry-run``: the report in place of the cell, which does not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_vram import reports
from jupyter_vram.model.report_data import ReportData
from support.kernels import Kernel
from support.shells import Cell, Shell, new_shell

pytest.importorskip("torch")

STEP = """
model = torch.nn.Linear(1000, 1000).to("cuda")
loss = model(torch.zeros(batch_size, 1000, device="cuda")).sum()
loss.backward()
"""
WEIGHTS = 4 * (1000 * 1000 + 1000)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with new_shell(tmp_path_factory.mktemp("shell")) as shell:
        shell("%load_ext jupyter_vram", store_history=False)
        shell("import torch; batch_size = 8")
        yield shell
    reports.forget()


def lines_of(report: ReportData) -> dict[str, int]:
    return {row.name: row.bytes for row in report.by_line}


@pytest.mark.parametrize(
    "head", ["%%vram --dry-run --gpu 'RTX 4090'", '%%vram_estimate --gpu "RTX 4090"']
)
def test_report_stands_in_for_the_cell(shell: Shell, head: str) -> None:
    names, outputs = set(shell.ip.user_ns), dict(shell["Out"])
    cell = shell(head + STEP)
    assert cell.error is None, cell.stderr
    report = cell.report
    assert (report.recorder, report.device) == ("dry_run", "cuda:0")
    assert report.estimate is not None
    assert report.estimate.gpu == "RTX 4090"
    assert report.estimate.fits[0].verdict == "fits"
    assert report.estimate.fits[0].largest[0].variable == "batch_size"
    lines = lines_of(report)
    assert lines["line 2"] == WEIGHTS
    assert {row.number for row in report.source if row.peak_bytes} == {2, 3, 4}
    assert report.source[0].text.startswith("%%vram")
    new = {name for name in set(shell.ip.user_ns) - names if not name.startswith("_")}
    assert not new
    assert shell["Out"] == outputs


def test_statement(shell: Shell) -> None:
    cell = shell("%vram_estimate torch.zeros(1000, device='cuda')")
    assert cell.report.peak_bytes == 4000
    cell = shell("%vram --dry-run --gpu 24GB torch.zeros(1000, device='cuda')")
    assert cell.report.peak_bytes == 4000


def test_functions_of_earlier_cells_are_labelled(shell: Shell) -> None:
    shell("def make(n):\n    return torch.zeros(n, device='cuda')")
    number = len(shell["In"]) - 1
    cell = shell("%%vram_estimate\nx = make(500)")
    assert lines_of(cell.report) == {f"line 2 › In [{number}]:2": 2000}


def test_values_of_variables(shell: Shell) -> None:
    cell = shell(
        "%%vram --dry-run --gpu 24GB --vary batch_size=1..4 --vary width=100,200\n"
        "width = 1\n"
        "x = torch.zeros(batch_size, width, device='cuda')"
    )
    estimate = cell.report.estimate
    assert estimate is not None
    assert estimate.grid is not None
    assert estimate.grid.peak_bytes == tuple(
        4 * batch * width for batch in (1, 2, 4) for width in (100, 200)
    )
    assert shell["batch_size"] == 8


def test_options_of_reports_work(shell: Shell, tmp_path: Path) -> None:
    shell("%%vram_estimate --name small\nx = torch.zeros(1000, device='cuda')")
    path = tmp_path / "report.json"
    cell = shell(
        f"%%vram --dry-run --compare small --as found --save {path}\n"
        f"x = torch.zeros(3000, device='cuda')"
    )
    assert cell.report.comparison is not None
    assert cell.report.comparison.peak_bytes == 4000
    assert path.exists()
    assert shell["found"].peak_device_bytes > shell["found"].peak_bytes


def test_timed_cells_and_awaits(shell: Shell) -> None:
    cell = shell(
        "%%vram_estimate\n"
        "\n"
        "%%time\n"
        "import asyncio\n"
        "await asyncio.sleep(0)\n"
        "x = torch.zeros(10, device='cuda')"
    )
    assert cell.error is None, cell.stderr
    assert set(lines_of(cell.report)) == {"line 6"}
    cell = shell("%%time\n%%vram --dry-run\nx = torch.zeros(10, device='cuda')")
    assert set(lines_of(cell.report)) == {"line 3"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "%%vram_estimate\nx = torch.zeros(2, device='cuda')\ny = x @ torch.zeros(3).cuda()",
            "line 3: y = x",
        ),
        ("%%vram_estimate\nprint('so far')\nraise ValueError('no')", "ValueError: no"),
        ("%%vram_estimate\nprint('so far')\nraise ValueError('no')", "  so far"),
        ("%%vram_estimate --timeout 0.4\nwhile True: pass", "given up after 0.4 s"),
        ("%%vram_estimate\nimport ctypes; ctypes.string_at(0)", "crashed (SIGSEGV)"),
        ("%%vram_estimate --gpu banana\nx = 1", "No GPU called 'banana'"),
        ("%%vram_estimate --vary n=64..1\nx = 1", "goes nowhere"),
    ],
)
def test_what_goes_wrong_is_told_beneath_the_cell(shell: Shell, text: str, words: str) -> None:
    cell = shell(text)
    assert cell.error is None
    assert words in cell.stderr
    assert "Traceback" not in cell.stderr
    assert shell["batch_size"] == 8


@pytest.mark.parametrize(
    "text",
    [
        "%%vram --gpu A100 \nx = 1",
        "%%vram --vary n=1..2\nx = 1",
        "%%vram_estimate --timeout soon\nx = 1",
        "%%vram_estimate\n",
        "%%vram_estimate\n%%bash\nls",
        "%vram_estimate",
    ],
)
def test_wrong_usage(shell: Shell, text: str) -> None:
    assert type(shell(text).error).__name__ == "UsageError"


def test_syntax_errors_are_shown(shell: Shell) -> None:
    cell = shell("%%vram_estimate\nx = (")
    assert "SyntaxError" in cell.stdout + cell.stderr
    assert not cell.reports


def test_cell_that_knows_no_gpu_is_counted_on_one(shell: Shell) -> None:
    cell: Cell = shell("%%vram_estimate --gpu 8GB\nmodel = torch.nn.Linear(1000, 1000)")
    assert cell.report.device == "cuda:0"
    assert cell.report.peak_bytes == WEIGHTS
    assert cell.report.estimate is not None
    assert "on the CPU" in cell.report.estimate.assumptions[0].text
    cell = shell("%%vram_estimate --device cpu\nmodel = torch.nn.Linear(1000, 1000)")
    assert cell.report.device == "cpu"


def test_in_a_kernel(kernel: Kernel) -> None:
    kernel.run("import torch\nx = torch.ones(3)")
    for _ in range(3):
        outputs = kernel.run(
            "%%vram --dry-run --gpu 'RTX 3060'\n"
            "x = torch.zeros(1000, device='cuda')\n"
            "print('in the child')"
        )
        kinds = [output["msg_type"] for output in outputs if output["msg_type"] != "execute_input"]
        assert kinds == ["display_data"], outputs
    assert kernel.value("x.tolist()") == [1, 1, 1]
    assert kernel.value("__import__('psutil').Process().children()") == []
