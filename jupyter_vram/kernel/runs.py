"""What IPython does not tell a listener about a run that begins: its request and its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def request_id(shell: InteractiveShell) -> str | None:
    """The id of the front end's request that is being answered; ``None`` outside of a kernel."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    msg_id = parent.get("header", {}).get("msg_id")
    return msg_id if isinstance(msg_id, str) else None


def count_of_next(shell: InteractiveShell) -> int | None:
    """The number of the stored run that begins, whose input is not stored yet.

    IPython raises its counter at the end of a run or, since 9, before this event.
    """
    history = shell.history_manager
    stored = 0 if history is None else len(history.input_hist_raw)
    return stored if stored in (shell.execution_count, shell.execution_count - 1) else None


def count_of_running(shell: InteractiveShell) -> int | None:
    """The number of the run that goes on, whose input is stored."""
    history = shell.history_manager
    latest = 0 if history is None else len(history.input_hist_raw) - 1
    return latest if latest in (shell.execution_count, shell.execution_count - 1) else None
