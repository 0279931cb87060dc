"""See which notebook holds how much GPU memory, live.

Importing this package loads neither torch, numpy, plotly nor jupyter_server: what needs them is
imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_vram._version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension"]


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
