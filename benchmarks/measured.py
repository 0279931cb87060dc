"""A process's memory, as the benchmarks' subprocesses ask for their own."""

from __future__ import annotations

import re
from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")
KIB = 1024


def resident_bytes() -> int:
    """Resident memory of this process, now."""
    return _status("VmRSS")


def peak_resident_bytes() -> int:
    """The most it was, since the process began or since `reset_peak`."""
    return _status("VmHWM")


def reset_peak() -> None:
    """The peak counts from now on (Linux)."""
    CLEAR_REFS.write_text("5")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", STATUS.read_text(), re.M)
    if found is None:
        raise OSError(f"{STATUS} has no {name}")
    return KIB * int(found[1])
