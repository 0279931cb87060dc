"""The memory of the process that asks."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int | None:
    """Host memory that this process holds resident, shared pages included; ``None`` if unknown."""
    # Linux tells it in a file. psutil, which takes long to import, knows the other systems.
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import psutil
    except ImportError:
        return None
    try:
        return int(psutil.Process().memory_info().rss)
    except (OSError, psutil.Error):
        return None
