"""An IPython shell in this process, which leaves nothing behind."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_vram.model.report_data import MIME_TYPE, ReportData
from jupyter_vram.model.report_json import from_json


class Cell(NamedTuple):
    """What a cell has done."""

    result: Any
    """An `ExecutionResult`."""
    outputs: list[dict[str, Any]]
    """Bundles of what it displayed, without its last expression."""
    stdout: str
    stderr: str

    @property
    def reports(self) -> list[ReportData]:
        return [from_json(data[MIME_TYPE]) for data in self.outputs if MIME_TYPE in data]

    @property
    def report(self) -> ReportData:
        """The only one."""
        assert len(self.reports) == 1, f"{len(self.reports)} reports\n{self.stdout}{self.stderr}"
        return self.reports[0]

    @property
    def error(self) -> Any:
        """The exception that ended it; ``None`` if it ended well."""
        return self.result.error_before_exec or self.result.error_in_exec

    def error_lines(self, filename: str) -> list[int]:
        """Lines of the traceback in files whose name begins so."""
        found = []
        traceback: TracebackType | None = self.error.__traceback__ if self.error else None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename.startswith(filename):
                found.append(traceback.tb_lineno)
            traceback = traceback.tb_next
        return found


class Shell:
    """Runs cells."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.ip: Any = shell

    def __call__(self, code: str, *, store_history: bool = True, **how: Any) -> Cell:
        publisher: Any = CapturingDisplayPublisher(shell=self.ip)  # type: ignore[no-untyped-call]
        before, self.ip.display_pub = self.ip.display_pub, publisher
        out, err = io.StringIO(), io.StringIO()
        try:
            with redirect_stdout(out), redirect_stderr(err):
                result = self.ip.run_cell(code, store_history=store_history, **how)
        finally:
            self.ip.display_pub = before
        outputs = [output["data"] for output in publisher.outputs]
        return Cell(result, outputs, out.getvalue(), err.getvalue())

    def __getitem__(self, name: str) -> Any:
        return self.ip.user_ns[name]

    def traces(self) -> dict[str, Any]:
        """What listens or transforms here."""
        ip = self.ip
        return {
            # A listener of IPython's own comes with each publisher.
            "callbacks": {
                event: [callback.__qualname__ for callback in ip.events.callbacks[event]]
                for event in ("pre_run_cell", "post_run_cell")
            },
            "cleanup": [_name(transformer) for transformer in ip.input_transformers_cleanup],
            "post": [_name(transformer) for transformer in ip.input_transformers_post],
            "magics": {k: sorted(v) for k, v in ip.magics_manager.magics.items()},
        }


def _name(transformer: Any) -> str:
    return getattr(transformer, "__qualname__", type(transformer).__qualname__)


@contextmanager
def new_shell(folder: Path) -> Iterator[Shell]:
    """The shell of this process, as `get_ipython` finds it."""
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.InteractiveShell.colors = "nocolor"
    main = sys.modules["__main__"]
    tracer, threads = sys.gettrace(), threading.enumerate()
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config, ipython_dir=str(folder))
    shell.autoawait = True
    try:
        yield Shell(shell)
    finally:
        assert sys.gettrace() is tracer
        shell.history_manager.end_session()
        shell.restore_sys_module_state()
        sys.modules["__main__"] = main
        InteractiveShell.clear_instance()
        left = [thread.name for thread in threading.enumerate() if thread not in threads]
        assert not [name for name in left if "vram" in name], left
