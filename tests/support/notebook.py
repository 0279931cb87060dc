"""A notebook in this process: cells in a shell of IPython, and what they put out."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import CapturedIO, capture_output
from traitlets.config import Config


class Notebook:
    """A shell with our extension loaded."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    @property
    def names(self) -> dict[str, Any]:
        """The user's variables."""
        names = self.shell.user_ns
        assert isinstance(names, dict)
        return names

    def run(self, text: str) -> CapturedIO:
        """A cell, which ends well.

        Raises:
            BaseException: what it raised.
        """
        with capture_output() as output:
            result = self.shell.run_cell(text, store_history=True)
        result.raise_error()
        return output

    def forget(self) -> None:
        """All variables of the user's are gone, and what the shell remembers of outputs."""
        self.shell.reset(new_session=False)


@contextmanager
def open_notebook(folder: Path) -> Iterator[Notebook]:
    """A notebook whose shell is the one that ``get_ipython()`` gives, until the end."""
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config, ipython_dir=str(folder))
    try:
        notebook = Notebook(shell)
        notebook.run("%load_ext jupyter_vram")
        yield notebook
        notebook.forget()
        notebook.run("%unload_ext jupyter_vram")
    finally:
        atexit.unregister(shell.atexit_operations)
        shell.atexit_operations()
        InteractiveShell.clear_instance()
