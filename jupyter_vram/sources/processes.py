"""The tree of processes of this machine: who started whom, and what they hold resident."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import psutil

_PROC = Path("/proc")

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError)
_DEPTH = 64
"""Deeper chains are cut: pids that are used again could close a circle."""


def ancestors(pids: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Each pid's parents, nearest first, without the pid itself.

    A process that is gone, or not to be seen from here (another container's), has none.
    """
    parents: dict[int, int] = {}
    chains = {}
    for pid in pids:
        chain: list[int] = []
        current = _parent(pid, parents)
        while current > 0 and current != pid and current not in chain and len(chain) < _DEPTH:
            chain.append(current)
            current = _parent(current, parents)
        chains[pid] = tuple(chain)
    return chains


def tree_resident_bytes(pids: Iterable[int]) -> dict[int, int | None]:
    """Resident bytes of each process with all its descendants; ``None`` if it can't be read.

    A descendant that itself is one of `pids` counts for itself, not for its ancestor. Processes
    that are gone are left out. Pages that processes share count once for each of them.
    """
    wanted = dict.fromkeys(pids)
    if not wanted:
        return {}
    children = _children()
    totals: dict[int, int | None] = {}
    for pid in wanted:
        try:
            total: int | None = psutil.Process(pid).memory_info().rss
        except psutil.AccessDenied:
            total = None
        except (*_GONE, ValueError, OverflowError):
            continue
        if total is not None:
            total += sum(map(_resident, _descendants(pid, children, wanted)))
        totals[pid] = total
    return totals


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except _GONE:  # it ended meanwhile, or became another user's (sudo)
        return 0


def _descendants(pid: int, children: dict[int, list[int]], apart: dict[int, None]) -> Iterable[int]:
    seen = {pid}
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        if child in seen or child in apart:
            continue
        seen.add(child)
        waiting.extend(children.get(child, ()))
    return seen - {pid}


def _children() -> dict[int, list[int]]:
    parents: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for pid in psutil.pids():
        children.setdefault(_parent(pid, parents), []).append(pid)
    return children


def _parent(pid: int, parents: dict[int, int]) -> int:
    """The parent's pid, 0 where there is none; remembered in `parents`."""
    parent = parents.get(pid)
    if parent is None:
        parent = parents[pid] = _ask_linux(pid) if sys.platform == "linux" else _ask_psutil(pid)
    return parent


def _ask_linux(pid: int) -> int:
    # psutil also reads when each process began: thrice the cost, for every process there is.
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return 0
    # "pid (name) state ppid …": a name may hold anything, also parentheses.
    return int(line[line.rfind(b")") + 2 :].split(None, 2)[1])


def _ask_psutil(pid: int) -> int:
    try:
        return psutil.Process(pid).ppid()
    except (*_GONE, ValueError, OverflowError):
        return 0
