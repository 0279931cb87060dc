"""Every notebook runs as it is, on this machine, and prints no warning or error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


def outputs(notebook: Any) -> list[Any]:
    return [
        output
        for cell in notebook.cells
        if cell.cell_type == "code" and "raises-exception" not in cell.metadata.get("tags", [])
        for output in cell.outputs
    ]


def problems(found: list[Any]) -> list[str]:
    return [
        output.get("text") or output.get("evalue", "")
        for output in found
        if output.output_type == "error" or output.get("name") == "stderr"
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_without_a_word_on_stderr(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    assert outputs(notebook)
    assert problems(outputs(notebook)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_outputs_are_clean_and_small(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert outputs(notebook), f"{path.name} has no outputs: make notebooks"
    assert problems(outputs(notebook)) == []
    assert path.stat().st_size < 1_000_000


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
