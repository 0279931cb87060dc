"""``%%vram_estimate``, and ``%%vram --dry-run``: what a cell would need, in place of the cell.

IPython calls the magic with the cell's text; nothing of it runs here.
"""

from __future__ import annotations

import re
import time
from collections import ChainMap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import needs_local_scope, no_var_expand
from IPython.display import clear_output, display

from jupyter_vram.errors import DryRunError
from jupyter_vram.kernel.cell_recording import cell_labels
from jupyter_vram.kernel.delivery import Delivery, tell
from jupyter_vram.kernel.options import Options, parse_options, split_options
from jupyter_vram.kernel.runs import count_of_running
from jupyter_vram.model.cell_code import CellCode

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

NAME = "vram_estimate"
FILENAME = "<dry run>"
"""The file name of the code in the dry run."""
PATIENCE_S = 1.0
"""A dry run that takes longer says how far it is."""
_TIMES = re.compile(r"%%(time|timeit|capture|prun)\b")
_MAGIC = re.compile(r"%%(\w+)")

EstimateMagic = Callable[..., Any]


def vram_estimate_magic(shell: InteractiveShell) -> EstimateMagic:
    """The magic, for both ``%vram_estimate`` and ``%%vram_estimate``."""

    def vram_estimate(
        line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> None:
        """Say what a cell or a statement would need on a GPU, without running it.

        The options are those of %%vram: see %vram help.
        """
        if cell is not None:
            estimate_cell(shell, cell, parse_options(line, dry_run=True))
            return
        options, statement = split_options(line, dry_run=True)
        if not statement:
            raise UsageError("%vram_estimate needs a statement; %%vram_estimate takes a cell.")
        estimate_statement(shell, statement, options, local_ns)

    decorate: Any = no_var_expand
    need_local_scope: Any = needs_local_scope
    return need_local_scope(decorate(vram_estimate))  # type: ignore[no-any-return]


def estimate_cell(shell: InteractiveShell, cell: str, options: Options) -> None:
    """A dry run of the lines beneath the magic's."""
    lines = cell.splitlines(keepends=True)
    start = 0
    while start < len(lines) and (not lines[start].strip() or _TIMES.match(lines[start])):
        start += 1  # what is timed is the cell itself
    if start == len(lines):
        raise UsageError("A dry run is one of the lines beneath it, and there are none.")
    other = _MAGIC.match(lines[start])
    if other is not None:
        raise UsageError(
            f"The cell magic %%{other[1]} runs its lines by itself: they can't be dry run. Put the"
            " dry run in a cell of its own."
        )
    text, above = _whole(shell, cell)
    _estimate(shell, "".join(lines[start:]), text, above + start, options, shell.user_ns)


def estimate_statement(
    shell: InteractiveShell, statement: str, options: Options, local_ns: dict[str, Any] | None
) -> None:
    """A dry run of one statement. `local_ns`: the names of the function that it stands in."""
    namespace = {**shell.user_ns, **local_ns} if local_ns else shell.user_ns
    _estimate(shell, statement, statement, 0, options, namespace)


def _whole(shell: InteractiveShell, body: str) -> tuple[str, int]:
    """The cell as the user sees it, and how many of its lines are above the body."""
    history = shell.history_manager
    raw = history.input_hist_raw[-1] if history is not None and history.input_hist_raw else ""
    if raw.rstrip().endswith(body.rstrip()):
        return raw, len(raw.rstrip().splitlines()) - len(body.rstrip().splitlines())
    return f"%%{NAME}\n{body}", 1


def _estimate(
    shell: InteractiveShell,
    code: str,
    text: str,
    line_offset: int,
    options: Options,
    namespace: dict[str, Any],
) -> None:
    # Imported here, since every kernel that starts imports this file.
    from jupyter_vram.dry_run.program import CellProgram
    from jupyter_vram.estimating import Request, estimate_program

    transform: Any = shell.transform_cell
    compiler: Any = shell.compile
    transformed = transform(code)
    try:
        compiler.ast_parse(transformed, FILENAME)
    except SyntaxError:
        show_error: Any = shell.showsyntaxerror
        show_error()
        return
    program = CellProgram(
        CellCode(text, count_of_running(shell), line_offset, frozenset({FILENAME})),
        transformed,
        FILENAME,
        namespace,
        ChainMap({FILENAME: ""}, cell_labels(shell)),  # type: ignore[arg-type]
    )
    request = Request(
        gpu=options.gpu,
        device=options.device,
        vary=options.vary,
        isolated=options.isolated,
        timeout_s=options.timeout_s,
        name=options.name,
    )
    delivery = Delivery(shell, options)
    delivery.check()
    progress = _Progress()
    try:
        report = estimate_program(program, request, progress.tell)
    except DryRunError as error:
        progress.end()
        tell(_explained(error, text))
        if error.report is not None:
            delivery.deliver_report(error.report)
        return
    except KeyboardInterrupt:
        progress.end()
        tell("The dry run was interrupted.")
        return
    progress.end()
    delivery.deliver_report(report)


def _explained(error: DryRunError, text: str) -> str:
    """The error, the line that it is about, and what was printed before."""
    failure = error.failure
    if failure is None:
        return str(error)
    parts = [str(error)]
    lines = text.splitlines()
    if failure.line is not None and 0 < failure.line <= len(lines):
        parts.append(f"  line {failure.line}: {lines[failure.line - 1].strip()}")
    output = failure.output.strip()
    if output:
        parts += ["It had printed:", *(f"  {line}" for line in output.splitlines()[-10:])]
    return "\n".join(parts)


class _Progress:
    """One line that says how far it is, if it takes long."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown: Any = None

    def tell(self, done: int, planned: int) -> None:
        if time.monotonic() - self._started < PATIENCE_S:
            return
        sentence = {"text/plain": f"Dry run: {done} of {planned} …"}
        if self._shown is None:
            show: Any = display
            self._shown = show(sentence, raw=True, display_id=True)
        else:
            self._shown.update(sentence, raw=True)

    def end(self) -> None:
        if self._shown is not None:
            clear: Any = clear_output
            clear(wait=True)
