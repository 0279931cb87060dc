"""``%vram``: this kernel's memory, in the output of a cell; and what one statement does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import needs_local_scope, no_var_expand
from IPython.display import display

from jupyter_vram.kernel.cell_head import NAME, read_head
from jupyter_vram.kernel.cell_recording import begin_recording
from jupyter_vram.kernel.magics.vram_estimate import estimate_cell, estimate_statement
from jupyter_vram.kernel.options import OPTIONS_USAGE, Options, parse_options, split_options
from jupyter_vram.kernel.reporter import read_report
from jupyter_vram.kernel.runs import count_of_running
from jupyter_vram.kernel.statement import FILENAME, Statement
from jupyter_vram.model.cell_code import CellCode

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

HELP = f"""\
%vram                       This kernel's memory per device: allocated (torch blocks in use),
                            reserved (held by torch's caching allocator) and their peaks, and the
                            resident memory of its process.
%vram live                  The same as a moving timeline, while other cells run.
%%vram [options]            Record a cell: its peak, its timeline, and whose the bytes were.
%vram [options] STATEMENT   Record one statement.
%%vram_estimate [options]   Dry run a cell: what it would need, and on which GPUs it fits; nothing
                            is run. The same as %%vram --dry-run.
%vram_estimate STATEMENT    Dry run one statement.
%vram help                  This text.

{OPTIONS_USAGE}"""

VramMagic = Callable[..., Any]


def vram_magic(shell: InteractiveShell) -> VramMagic:
    """The magic, for both ``%vram`` and ``%%vram``."""

    def vram(line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None) -> Any:
        if cell is None:
            return _line(shell, line, local_ns)
        return _cell(shell, line, cell)

    vram.__doc__ = f"Show how much memory a cell, or this kernel, holds.\n\n{HELP}"
    # Braces and dollars are the statement's own, and it may stand in a function.
    decorate: Any = no_var_expand
    need_local_scope: Any = needs_local_scope
    return need_local_scope(decorate(vram))  # type: ignore[no-any-return]


def _line(shell: InteractiveShell, line: str, local_ns: dict[str, Any] | None) -> Any:
    words = line.split()
    if not words:
        _show_memory()
    elif words in (["help"], ["--help"], ["-h"]):
        print(HELP)  # noqa: T201 - a magic's help is its output
    elif words == ["live"]:
        from jupyter_vram.kernel.live import live

        display(live())  # type: ignore[no-untyped-call]
    else:
        options, statement = split_options(line)
        if not statement:
            raise UsageError(f"%vram with options needs a statement. There is:\n\n{HELP}")
        if options.dry_run:
            return estimate_statement(shell, statement, options, local_ns)
        code = CellCode(statement, count_of_running(shell), 0, frozenset({FILENAME}))
        return _record(shell, Statement(shell, statement), code, options, local_ns)
    return None


def _cell(shell: InteractiveShell, line: str, cell: str) -> Any:
    """A cell that says ``%%vram`` never comes here, unless something is the matter with it, or
    somebody calls the magic as a function."""
    options = parse_options(line)
    if not cell.strip():
        raise UsageError("%%vram records the lines beneath it, and there are none.")
    if options.dry_run:
        return estimate_cell(shell, cell, options)
    if read_head(cell) is not None:
        raise UsageError("%%vram stands twice on this cell: once is enough.")
    code = CellCode(f"%%{NAME} {line}\n{cell}", count_of_running(shell), 1, frozenset({FILENAME}))
    return _record(shell, Statement(shell, cell), code, options, None)


def _record(
    shell: InteractiveShell,
    statement: Statement,
    code: CellCode,
    options: Options,
    local_ns: dict[str, Any] | None,
) -> Any:
    recording = begin_recording(shell, code, options)
    error: str | None = None
    try:
        return statement.run(local_ns)
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        if recording is not None:
            try:
                recording.end(error)
            except (Exception, KeyboardInterrupt):  # noqa: BLE001 - the statement's value counts
                shell.showtraceback()


def _show_memory() -> None:
    # Imported here, since every kernel that starts imports this file.
    from jupyter_vram.render.text import report_html, report_text

    report = read_report(period_s=0.0)
    display(  # type: ignore[no-untyped-call]
        {"text/plain": report_text(report), "text/html": report_html(report)}, raw=True
    )
