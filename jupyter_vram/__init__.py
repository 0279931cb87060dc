"""See which notebook holds how much GPU memory, live, and where every byte of a cell went.

    with jupyter_vram.record() as recording:
        train_step()
    recording.report.peak_bytes

Importing this package loads neither torch, numpy, plotly nor jupyter_server: what needs them is
imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_vram._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_vram.errors import DryRunError as DryRunError
    from jupyter_vram.errors import RecordingError as RecordingError
    from jupyter_vram.errors import ReportError as ReportError
    from jupyter_vram.errors import SnapshotError as SnapshotError
    from jupyter_vram.errors import TorchMissingError as TorchMissingError
    from jupyter_vram.errors import UnknownGpuError as UnknownGpuError
    from jupyter_vram.errors import VramError as VramError
    from jupyter_vram.estimating import estimate as estimate
    from jupyter_vram.kernel.live import live as live
    from jupyter_vram.kernel.recording import record as record
    from jupyter_vram.report import Report as Report
    from jupyter_vram.reports import last_report as last_report

_HOMES = {
    "DryRunError": "jupyter_vram.errors",
    "RecordingError": "jupyter_vram.errors",
    "Report": "jupyter_vram.report",
    "ReportError": "jupyter_vram.errors",
    "SnapshotError": "jupyter_vram.errors",
    "TorchMissingError": "jupyter_vram.errors",
    "UnknownGpuError": "jupyter_vram.errors",
    "VramError": "jupyter_vram.errors",
    "estimate": "jupyter_vram.estimating",
    "last_report": "jupyter_vram.reports",
    "live": "jupyter_vram.kernel.live",
    "record": "jupyter_vram.kernel.recording",
}
"""Public name → the module that it is loaded from when it is first used."""

__all__ = [
    "DryRunError",
    "RecordingError",
    "Report",
    "ReportError",
    "SnapshotError",
    "TorchMissingError",
    "UnknownGpuError",
    "VramError",
    "__version__",
    "estimate",
    "last_report",
    "live",
    "load_ipython_extension",
    "record",
    "unload_ipython_extension",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext jupyter_vram``: report this kernel's memory and add the magics."""
    from jupyter_vram.kernel.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """``%unload_ext jupyter_vram``: undo all that loading did."""
    from jupyter_vram.kernel.extension import unload

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-vram"}]


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_vram.server.app import VramApp

    return [{"module": "jupyter_vram.server.app", "app": VramApp}]
