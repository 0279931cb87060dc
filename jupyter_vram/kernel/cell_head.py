"""The cell magics at the top of a cell, and making ``%%vram`` among them a comment.

Pure functions over the text: IPython transforms a cell more often than it runs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import (
    classic_prompt,
    ipython_prompt,
    leading_empty_lines,
    leading_indent,
)

from jupyter_vram.kernel.options import parse_options

NAME = "vram"
MARK = "#%%" + NAME
"""How the magic's line begins when it has become a comment."""

# Their files' names are fixed, and they hand their body to `transform_cell`. All other cell magics
# are taken to run it as a cell, as `%%capture` does.
_FILENAMES = {
    "time": frozenset({"<timed exec>", "<timed eval>"}),
    "timeit": frozenset({"<magic-timeit>"}),
    "prun": frozenset({"<string>"}),
}
_CLEANUPS: tuple[Callable[[list[str]], list[str]], ...] = (
    leading_empty_lines,
    leading_indent,
    classic_prompt,
    ipython_prompt,
)
_CELL_MAGIC = re.compile(r"%%(?P<name>\w+)(?:\s+(?P<rest>.*?))?\s*\Z")


@dataclass(frozen=True, slots=True)
class CellHead:
    """The top of a cell that ``%%vram`` records."""

    options: str
    """What stands after ``%%vram``."""
    line_offset: int
    """The number of a line in the cell is its number in the innermost code plus this."""
    filenames: frozenset[str] = frozenset()
    """Under ``%%time`` and its like: those of the innermost code."""
    inner_cell: str | None = None
    """Under another cell magic that runs its body as a cell: that body."""


def read_head(raw_cell: str) -> CellHead | None:
    """The head of a cell to record while it runs; ``None`` if it isn't one, or is malformed."""
    if MARK[1:] not in raw_cell:
        return None
    lines = _cleaned(_lines(raw_cell))
    start = len(_lines(raw_cell)) - len(lines)
    options: str | None = None
    options_at = at = 0
    others: list[tuple[str, int]] = []
    while found := _first_magic(lines, at):
        at, name, rest = found
        if name != NAME:
            others.append((name, at))
        elif options is None and all(other in _FILENAMES for other, _ in others):
            options, options_at = rest, at
        else:
            return None  # it is that of a cell within, or stands twice
        at += 1
    if options is None or not _records(options) or not _has_code(lines[options_at + 1 :]):
        return None
    if not others:
        return CellHead(options, start)
    innermost, place = others[-1]
    begins = options_at if options_at > place else _skip_empty(lines, place + 1)
    if innermost in _FILENAMES:
        return CellHead(options, start + begins, filenames=_FILENAMES[innermost])
    return CellHead(options, start + begins, inner_cell="".join(lines[place + 1 :]))


def comment_out(lines: list[str]) -> list[str]:
    """A transformer of IPython's: what is left of the cell when ``%%vram`` on its first line is a
    comment or, where another cell magic must become the first line, no more.

    A line with bad options stays: then IPython calls the magic, which tells what is the matter.
    So does that of a dry run, which takes the place of the cell.
    """
    found = _first_magic(lines, 0) if lines else None
    if found is None or found[0] != 0 or found[1] != NAME or not _records(found[2]):
        return lines
    if not _has_code(lines[1:]):
        return lines
    body = _cleaned(lines[1:])
    beneath = _first_magic(body, 0)
    if beneath is not None and beneath[:2] == (0, NAME):
        return lines  # it stands twice: the magic tells
    if body[0].startswith("%%"):
        return body
    # What was removed as well, an empty line each, so that the lines keep their numbers.
    removed = len(lines) - 1 - len(body)
    return [f"#{lines[0].rstrip()}\n", *["\n"] * removed, *body]


# IPython skips it when it asks whether a cell is complete: a cell magic is, after an empty line.
comment_out.has_side_effects = True  # type: ignore[attr-defined]


def single_line(lines: Sequence[str]) -> str | None:
    """The only line beneath a ``%%vram`` that became a comment; ``None`` if there are more."""
    if not lines or not lines[0].startswith(MARK):
        return None
    code = lines[_skip_empty(lines, 1) :]
    return code[0] if len(code) == 1 else None


def _first_magic(lines: Sequence[str], at: int) -> tuple[int, str, str] | None:
    """Index, name and the rest of the cell magic that is the first thing from `at` on."""
    at = _skip_empty(lines, at)
    match = _CELL_MAGIC.match(lines[at]) if at < len(lines) else None
    return (at, match["name"], match["rest"] or "") if match else None


def _records(options: str) -> bool:
    """Whether they are valid, and those of a recording."""
    try:
        return not parse_options(options).dry_run
    except UsageError:
        return False


def _has_code(lines: Sequence[str]) -> bool:
    return any(line.strip() for line in lines)


def _skip_empty(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and not lines[at].strip():
        at += 1
    return at


def _lines(raw_cell: str) -> list[str]:
    return (raw_cell if raw_cell.endswith("\n") else raw_cell + "\n").splitlines(keepends=True)


def _cleaned(lines: list[str]) -> list[str]:
    """As IPython cleans a whole cell, before all else."""
    for transform in _CLEANUPS:
        lines = transform(lines)
    return lines
