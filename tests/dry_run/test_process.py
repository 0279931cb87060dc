"""What a dry run may take, and whether it can be a fork."""

from __future__ import annotations

import os
import time

import pytest
import torch

from jupyter_vram.dry_run.process import MEMORY_BYTES, Limits, can_fork
from jupyter_vram.errors import DryRunError
from jupyter_vram.sources.child_process import own_bytes


def test_fork_is_for_linux_where_cuda_is_not_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_fork()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert not can_fork()
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert not can_fork()


def test_asking_does_not_initialise_cuda() -> None:
    can_fork()
    assert not torch.cuda.is_initialized()


def test_default_leaves_half_of_what_is_free() -> None:
    assert 0 < Limits().memory_bytes <= MEMORY_BYTES


def test_limits() -> None:
    pid, later = os.getpid(), time.monotonic() + 60
    limits = Limits(timeout_s=1, memory_bytes=1 << 30)
    limits.check(pid, own_bytes(pid), later)
    with pytest.raises(DryRunError, match="given up after 1 s"):
        limits.check(pid, own_bytes(pid), time.monotonic() - 1)
    with pytest.raises(DryRunError, match=r"took more than 0\.0 GiB"):
        Limits(memory_bytes=1 << 20).check(pid, 0, later)
