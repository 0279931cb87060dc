"""Memory of a process that this one has started."""

from __future__ import annotations

import psutil


def own_bytes(pid: int) -> int:
    """Resident memory that no file backs, what it shares with its parent since a fork included; 0
    if the process is gone."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.NoSuchProcess:
        return 0
    return int(memory.rss - getattr(memory, "shared", 0))
