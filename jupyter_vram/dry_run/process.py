"""What a dry run's process may take, and whether it can be a fork of this one."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

TIMEOUT_S = 120.0
MEMORY_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dry run may take before it is given up."""

    timeout_s: float = TIMEOUT_S
    memory_bytes: int = MEMORY_BYTES
    """Of the child's own, beyond what it shares with its parent."""


def can_fork() -> bool:
    """Whether a fork of this process can run torch: on Linux, unless CUDA is in use here."""
    if sys.platform != "linux" or not hasattr(os, "fork"):
        return False
    torch = sys.modules.get("torch")
    return torch is None or not torch.cuda.is_initialized()
