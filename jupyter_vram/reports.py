"""The reports of this process that can be asked for again: the last one, and those with names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_vram.report import Report

KEPT = 64
"""Named reports at most; the one recorded longest ago goes first."""

_last: Report | None = None
_named: dict[str, Report] = {}


def remember(report: Report, name: str | None = None) -> None:
    """Make it the last report and, under its name, replace what had that name."""
    global _last
    _last = report
    if name is not None:
        _named.pop(name, None)
        # Its figures only: the events of many recordings would take much memory.
        _named[name] = report.without_events()
        while len(_named) > KEPT:
            del _named[next(iter(_named))]


def last_report() -> Report | None:
    """The report of the latest recording in this process; ``None`` before the first."""
    return _last


def named_report(name: str) -> Report | None:
    """The latest report of that name."""
    return _named.get(name)


def report_names() -> tuple[str, ...]:
    """Oldest first."""
    return tuple(_named)


def forget() -> None:
    """Drop them all, and the memory that they take."""
    global _last
    _last = None
    _named.clear()
