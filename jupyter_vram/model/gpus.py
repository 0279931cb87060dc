"""GPUs by the name on the box: how much memory each has. The table is ``data/gpus.json``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU."""

    name: str
    """``RTX 4090``."""
    total_bytes: int
    """What the driver reports (NVML ``total``)."""
    reserved_bytes: int
    """What the driver keeps for itself (NVML ``reserved``)."""
    compute_capability: tuple[int, int]
    """(8, 9)."""
    multiprocessors: int
    aliases: tuple[str, ...] = ()
    """Other names, lower case: ``geforce rtx 4090``, ``4090``."""
