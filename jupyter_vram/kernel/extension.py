"""What loading does in a shell of IPython, and undoing it.

The magics and, for ``%%vram``, what makes it a comment and records the cell
(`jupyter_vram.kernel.cell_recording`); in a Jupyter kernel, the report as well
(`jupyter_vram.kernel.reporter`): no server knows a terminal.
"""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_vram.kernel.cell_head import NAME
from jupyter_vram.kernel.cell_recording import CellRecordings
from jupyter_vram.kernel.cells import CellLog
from jupyter_vram.kernel.magics import vram_estimate
from jupyter_vram.kernel.magics.vram import vram_magic
from jupyter_vram.kernel.reporter import Reporter
from jupyter_vram.sources.report_file import report_path
from jupyter_vram.sources.torch_profiler import quiet

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_LOG_LEVEL = "KINETO_LOG_LEVEL"

_loaded: weakref.WeakKeyDictionary[InteractiveShell, ExitStack] = weakref.WeakKeyDictionary()


def load(shell: InteractiveShell) -> None:
    """Load our side, unless it is loaded. Undoes what it has begun if it fails."""
    if shell in _loaded:
        return
    with ExitStack() as undo:
        for name, magic in (
            (NAME, vram_magic(shell)),
            (vram_estimate.NAME, vram_estimate.vram_estimate_magic(shell)),
        ):
            for kind in ("line", "cell"):
                _add_magic(shell, kind, name, magic, undo)
        kernel_app = _kernel_app(shell)
        if kernel_app is not None:
            _report(shell, kernel_app, undo)
        _quiet_torch(undo)
        # The last to listen, so that it records the cell and not the others that listen.
        recordings = CellRecordings(shell)
        recordings.attach()
        undo.callback(recordings.detach)
        undo.callback(_stop_live)
        _loaded[shell] = undo.pop_all()


def unload(shell: InteractiveShell) -> None:
    """Undo `load`; nothing if it is not loaded."""
    undo = _loaded.pop(shell, None)
    if undo is not None:
        undo.close()


def _stop_live() -> None:
    live = sys.modules.get("jupyter_vram.kernel.live")
    if live is not None:
        live.stop()


def _quiet_torch(undo: ExitStack) -> None:
    """Before the user imports torch: see `torch_profiler.quiet`."""
    before = os.environ.get(_LOG_LEVEL)
    quiet()

    def restore() -> None:
        if before is None:
            os.environ.pop(_LOG_LEVEL, None)

    undo.callback(restore)


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
    shell: InteractiveShell, kind: str, name: str, magic: Callable[..., Any], undo: ExitStack
) -> None:
    """`kind`: ``line`` or ``cell``."""
    manager: Any = shell.magics_manager
    magics: dict[str, Any] = manager.magics[kind]
    before = magics.get(name)

    def restore() -> None:
        if magics.get(name) is not magic:
            return  # the user has put another in its place
        if before is None:
            del magics[name]
        else:
            magics[name] = before

    undo.callback(restore)
    magics[name] = magic
