"""Texts of cells: when ``%%vram`` becomes a comment, and which code then is the cell's."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_vram.kernel.cell_head import CellHead, comment_out, read_head, single_line


def transformed(cell: str) -> str:
    lines = cell.splitlines(keepends=True)
    result = comment_out(list(lines))
    assert comment_out(list(result)) == result, "not idempotent"
    return "".join(result)


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("%%vram\nx = 1\n", "#%%vram\nx = 1\n"),
        ("%%vram --name a \nx = 1\n", "#%%vram --name a\nx = 1\n"),
        ("%%vram\n\n\nx = 1\n", "#%%vram\n\n\nx = 1\n"),
        ("%%vram\n    x = 1\n    y = 2\n", "#%%vram\nx = 1\ny = 2\n"),
        ("%%vram\n>>> x = 1\n>>> y = 2\n", "#%%vram\nx = 1\ny = 2\n"),
        ("%%vram\n%%time\nx = 1\n", "%%time\nx = 1\n"),
        ("%%vram\n\n%%time\nx = 1\n", "%%time\nx = 1\n"),
        ("%%vram\n%time x = 1\n", "#%%vram\n%time x = 1\n"),
        ("%%vram\n'''\n%%vram\n'''\n", "#%%vram\n'''\n%%vram\n'''\n"),
    ],
)
def test_it_becomes_a_comment_or_nothing(cell: str, code: str) -> None:
    assert transformed(cell) == code
    assert read_head(cell) is not None


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "\n",
        "x = 1\n",
        "%%vram",
        "%%vram\n",
        "%%vram\n  \n\n",
        "%%vram?\n",
        "%%vram??\nx\n",
        "%%vramp\nx = 1\n",
        "%vram x = 1\n",
        "# a comment\n%%vram\nx = 1\n",
        "%%vram --bogus\nx = 1\n",
        "%%vram x\nx = 1\n",
        "%%vram\n%%vram\nx = 1\n",
        "%%time\nx = 1\n",
        "%%bash\n%%vram\nls\n",
    ],
)
def test_everything_else_is_left_alone(cell: str) -> None:
    assert transformed(cell) == cell
    assert read_head(cell) is None


@pytest.mark.parametrize(
    ("cell", "head"),
    [
        ("%%vram --as r\nx", CellHead("--as r", 0)),
        ("%%vram\n\n\nx", CellHead("", 0)),
        ("\n  \n%%vram\nx", CellHead("", 2)),
        ("  %%vram\n  x", CellHead("", 0)),
        (">>> %%vram\n>>> x", CellHead("", 0)),
        ("%%vram\n%%time\nx", CellHead("", 2, frozenset({"<timed exec>", "<timed eval>"}))),
        ("%%time\n%%vram\nx", CellHead("", 1, frozenset({"<timed exec>", "<timed eval>"}))),
        ("\n%%vram\n\n%%timeit -n 1\n\nx", CellHead("", 5, frozenset({"<magic-timeit>"}))),
        ("%%vram\n%%capture out\n\nx", CellHead("", 3, inner_cell="\nx\n")),
        ("%%vram\n%%time\n%%capture\nx", CellHead("", 3, inner_cell="x\n")),
        ("%%time\n%%vram --no-plot\n%%capture\nx", CellHead("--no-plot", 3, inner_cell="x\n")),
    ],
)
def test_which_code_is_the_cells(cell: str, head: CellHead) -> None:
    assert read_head(cell) == head


def test_a_cell_within_records_itself() -> None:
    # `%%capture` runs its body as a cell.
    assert read_head("%%capture out\n%%vram\nx") is None


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("#%%vram\nls\n", "ls\n"),
        ("#%%vram\n\n\nls\n", "ls\n"),
        ("#%%vram\nls\n\n", None),
        ("#%%vram\nx\ny\n", None),
        ("#%%vram\n", None),
        ("ls\n", None),
        ("# %%vram\nls\n", None),
    ],
)
def test_the_only_line_beneath(code: str, line: str | None) -> None:
    assert single_line(code.splitlines(keepends=True)) == line


def test_in_a_terminal_the_cell_goes_on_until_an_empty_line() -> None:
    manager: Any = TransformerManager()  # type: ignore[no-untyped-call]
    manager.cleanup_transforms.append(comment_out)
    assert manager.check_complete("%%vram\n")[0] == "incomplete"
    assert manager.check_complete("%%vram\nx = 1\n")[0] == "incomplete"
    assert manager.check_complete("%%vram\nx = 1\n\n")[0] == "complete"
    assert manager.check_complete("%%vram --bogus\nx = 1\n\n")[0] == "complete"
