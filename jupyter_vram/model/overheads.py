"""What a process holds on a GPU beside its tensors, from ``data/overheads.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Overhead:
    """A figure, its bounds, and where it comes from."""

    bytes: int
    low_bytes: int
    high_bytes: int
    source: str


@lru_cache(1)
def _table() -> Any:
    path = files("jupyter_vram") / "data" / "overheads.json"
    return json.loads(path.read_text(encoding="utf-8"))


def context() -> Overhead:
    """The CUDA context, and the kernels loaded in it."""
    return _overhead(_table()["context"])


def cudnn() -> Overhead:
    """What convolutions take while they run."""
    return _overhead(_table()["cudnn"])


def workspace(compute_capability: tuple[int, int]) -> Overhead:
    """What cuBLAS takes from the allocator at its first use."""
    rows = _table()["workspaces"]
    row = next(row for row in rows if row["compute_capability"] in (None, list(compute_capability)))
    size_bytes = int(row["mib"] * _MIB)
    return Overhead(size_bytes, size_bytes, size_bytes, row["source"])


def driver_bytes(total_bytes: int) -> int:
    """What the driver keeps of a GPU's memory, where its own figure is not known."""
    return int(total_bytes * _table()["driver"]["share"])


def _overhead(row: Any) -> Overhead:
    return Overhead(row["mib"] * _MIB, row["low_mib"] * _MIB, row["high_mib"] * _MIB, row["source"])
