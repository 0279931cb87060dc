"""What loading does in a shell of IPython, and undoing it.

In a Jupyter kernel: the report (`jupyter_vram.kernel.reporter`) and the magics; in a terminal,
which no server knows, the magics only.
"""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_vram.kernel.cells import CellLog
from jupyter_vram.kernel.magics import vram
from jupyter_vram.kernel.reporter import Reporter
from jupyter_vram.sources.report_file import report_path

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_loaded: weakref.WeakKeyDictionary[InteractiveShell, ExitStack] = weakref.WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Load our side, unless it is loaded. Undoes what it has begun if it fails."""
    if shell in _loaded:
        return
    with ExitStack() as undo:
        _add_magic(shell, vram.NAME, vram.vram, undo)
        kernel_app = _kernel_app(shell)
        if kernel_app is not None:
            _report(shell, kernel_app, undo)
        _loaded[shell] = undo.pop_all()


def unload(shell: InteractiveShell) -> None:
    """Undo `load`; nothing if it is not loaded."""
    undo = _loaded.pop(shell, None)
    if undo is not None:
        undo.close()


def _report(shell: InteractiveShell, kernel_app: Any, undo: ExitStack) -> None:
    log = kernel_app.log if isinstance(kernel_app.log, logging.Logger) else logging.getLogger()
    cells = CellLog(shell, on_change=lambda: reporter.wake())
    reporter = Reporter(
        # Absolute, whatever its name says: the user may change the working directory.
        report_path(Path(kernel_app.abs_connection_file).absolute()),
        log,
        cells=lambda: cells.runs,
        is_busy=lambda: cells.busy,
        on_read=cells.sample,
    )
    undo.callback(cells.detach)
    cells.attach()
    undo.callback(reporter.stop)
    reporter.start()


def _kernel_app(shell: InteractiveShell) -> Any | None:
    """The application of the kernel that this is the shell of; ``None`` in a terminal."""
    module = sys.modules.get("ipykernel.kernelapp")
    if module is None or getattr(shell, "kernel", None) is None:
        return None
    application = module.IPKernelApp
    return application.instance() if application.initialized() else None


def _add_magic(
    shell: InteractiveShell, name: str, magic: Callable[[str], None], undo: ExitStack
) -> None:
    manager: Any = shell.magics_manager
    line_magics: dict[str, Any] = manager.magics["line"]
    before = line_magics.get(name)

    def restore() -> None:
        if line_magics.get(name) is not magic:
            return  # the user has put another in its place
        if before is None:
            del line_magics[name]
        else:
            line_magics[name] = before

    undo.callback(restore)
    line_magics[name] = magic
