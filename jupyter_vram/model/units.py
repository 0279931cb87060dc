"""The words of a recording: which recorder, which bytes, which category. No numpy here: the front
end's side of the values needs none."""

from __future__ import annotations

from typing import Literal

RecorderKind = Literal["cpu", "cuda", "snapshot", "dry_run"]
BytesKind = Literal["tensor", "block"]
Phase = Literal["forward", "backward", "recompute", "optimizer", "other"]
Category = Literal[
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "activation",
    "input",
    "temporary",
    "unknown",
]
CATEGORIES: tuple[Category, ...] = (
    "parameter",
    "buffer",
    "gradient",
    "optimizer state",
    "activation",
    "input",
    "temporary",
    "unknown",
)
"""In the order in which they are stacked, from the bottom."""
