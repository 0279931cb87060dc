"""What a dry run's process may take, and whether it can be a fork of this one."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field

from jupyter_vram.errors import DryRunError
from jupyter_vram.sources.child_process import own_bytes
from jupyter_vram.sources.host import HostSource
from jupyter_vram.sources.source import ReadRequest

TIMEOUT_S = 120.0
MEMORY_BYTES = 4 << 30


def memory_to_spare_bytes() -> int:
    """What a child may take if nothing else is said: 4 GiB, or half of what is free here."""
    free_bytes = HostSource().read(ReadRequest(processes=False)).devices[0].free_bytes
    return MEMORY_BYTES if free_bytes is None else min(MEMORY_BYTES, free_bytes // 2)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dry run may take before it is given up."""

    timeout_s: float = TIMEOUT_S
    memory_bytes: int = field(default_factory=memory_to_spare_bytes)
    """Of the child's own, beyond what it shares with its parent."""

    def check(self, pid: int, inherited_bytes: int, deadline: float) -> None:
        """Raises `DryRunError` where the process `pid` has passed a limit.

        Args:
            inherited_bytes: what it had when it began.
            deadline: by `time.monotonic`.
        """
        if time.monotonic() > deadline:
            raise DryRunError(
                f"The dry run was given up after {self.timeout_s:g} s: a loop of the code may not"
                " end on values that nobody has. Let it run fewer steps, or allow more time"
                " (--timeout)."
            )
        self.check_bytes(own_bytes(pid) - inherited_bytes)

    def check_bytes(self, taken_bytes: int) -> None:
        """Raises `DryRunError` if that is more than the limit."""
        if taken_bytes > self.memory_bytes:
            raise DryRunError(
                f"The dry run was stopped: it took more than {self.memory_bytes / 2**30:.1f} GiB"
                " of this machine's memory itself. Only tensors take none: arrays, lists and data"
                " that the code makes do."
            )


def can_fork() -> bool:
    """Whether a fork of this process can run torch: on Linux, unless CUDA is in use here."""
    if sys.platform != "linux" or not hasattr(os, "fork"):
        return False
    torch = sys.modules.get("torch")
    return torch is None or not torch.cuda.is_initialized()
