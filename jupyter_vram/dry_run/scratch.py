"""Bytes that operations take while they run, beside their outputs."""

from __future__ import annotations

from torch._ops import OpOverload

from jupyter_vram.dry_run.mode import Scratch

TABLE: dict[OpOverload, Scratch] = {}
"""Operation → what it takes."""
