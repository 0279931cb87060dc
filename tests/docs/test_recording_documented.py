"""docs/recording.md names all that can be asked for and seen; its examples give what it shows."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import jupyter_vram
from jupyter_vram.kernel.live import live
from jupyter_vram.kernel.magics.vram import HELP
from jupyter_vram.kernel.options import OPTIONS_USAGE
from jupyter_vram.model.report_data import DIMENSIONS, MIME_TYPE
from jupyter_vram.model.units import CATEGORIES
from jupyter_vram.report import SUFFIXES, Report
from reports.schema import check

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/recording.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##+ (.+)\n((?:(?!##).*\n)*)", PAGE, re.MULTILINE))
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(SHOWN,) = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)

RUN = """
import json, sys
from pathlib import Path
from support.shells import new_shell

with new_shell(Path.cwd()) as shell:
    shell("%load_ext jupyter_vram", store_history=False)
    for example in json.load(sys.stdin):
        cell = shell(example)
        assert cell.result.success, (example, cell.stderr, cell.result)
        print(json.dumps([cell.stdout, cell.outputs]))
"""


def first_column(section: str) -> set[str]:
    """The code in the first column of the tables of a section."""
    rows = [line for line in SECTIONS[section].splitlines() if line.startswith("| `")]
    return {
        code
        for row in rows
        for code in re.findall(r"`([^`]+)`", row.removeprefix("| ").split(" | ")[0])
    }


def names(section: str) -> set[str]:
    return {re.split(r"[( ]", code)[0].removeprefix("Report.") for code in first_column(section)}


def public_members(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_options() -> None:
    options = set(re.findall(r"^  (--[\w-]+(?: \w+)?)", OPTIONS_USAGE, re.MULTILINE))
    assert options
    section = "`%%vram` and its options"
    assert {code for code in first_column(section) if code.startswith("--")} == options


def test_line_magics() -> None:
    magics = set(re.findall(r"^(%vram(?: live| help|\b))", HELP, re.MULTILINE))
    documented = {code for code in first_column("`%%vram` and its options") if code[0] == "%"}
    assert documented == magics | {"%vram STATEMENT", "%vram_estimate STATEMENT"}


def test_public_names() -> None:
    api = names("In Python")
    missing = set(jupyter_vram.__all__) - api
    assert missing == set()
    # `estimate` is both a function and a member.
    assert api - set(jupyter_vram.__all__) <= public_members(Report) <= api


@pytest.mark.parametrize(
    "function", [jupyter_vram.record, jupyter_vram.estimate, live, Report.load, Report.at_peak]
)
def test_parameters(function: Callable[..., object]) -> None:
    (signature,) = {
        code
        for code in first_column("In Python")
        if "(" in code and re.split(r"[( ]", code)[0].rpartition(".")[2] == function.__name__
    }
    parameters = {name for name in inspect.signature(function).parameters if name != "self"}
    assert set(re.findall(r"(\w+)[,=)]", signature.replace("None", ""))) >= parameters


def test_categories() -> None:
    assert first_column("Categories") == set(CATEGORIES)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_dimensions(dimension: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `--detail BY`"))
    api = next(line for line in PAGE.splitlines() if line.startswith("| `at_peak("))
    assert f"`{dimension}`" in row
    assert f"`{dimension}`" in api


def test_endings() -> None:
    assert first_column("Files") == set(SUFFIXES)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, list[dict[str, str]]]]:
    """What each example prints and shows, run one after another in a process of their own."""
    pytest.importorskip("torch")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests"), "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(EXAMPLES), cwd=tmp_path_factory.mktemp("examples"), env=env,
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return [tuple(json.loads(line)) for line in result.stdout.splitlines()]


def without_times(text: str) -> str:
    return re.sub(r"[\d.]+ m?s\b", "TIME", re.sub(r" +", " ", text)).strip()


def test_the_report_shown_is_the_example_s(
    outputs: list[tuple[str, list[dict[str, str]]]],
) -> None:
    (shown,) = [data["text/plain"] for _, cell in outputs for data in cell]
    assert without_times(shown) == without_times(SHOWN)


def test_a_recording_is_as_the_schema_says(
    outputs: list[tuple[str, list[dict[str, str]]]],
) -> None:
    (shown,) = [data[MIME_TYPE] for _, cell in outputs for data in cell]
    check(shown)


def test_the_api_s_example_prints_its_tables(
    outputs: list[tuple[str, list[dict[str, str]]]],
) -> None:
    printed, _ = outputs[-1]
    assert re.search(r"^line 4 › In \[1\]:10 \d+ \d+$", printed, re.MULTILINE), printed
    assert re.search(r"^model\.0 +[\d.]+ MiB", printed, re.MULTILINE), printed
