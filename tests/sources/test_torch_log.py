"""torch's C++ log is quiet while a recording runs, and as before after it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from jupyter_vram.sources import torch_log
from jupyter_vram.sources.torch_log import ERROR, hush, restore

FREES = """
import torch
from jupyter_vram.recorders.recorder import Recorder
tensors = [torch.zeros(100) for _ in range(1500)]
recorder = Recorder()
recorder.start()
tensors.clear()
recorder.stop()
"""


def level() -> int | None:
    found = torch_log._level()
    return None if found is None else found.value


def test_it_is_as_before() -> None:
    assert torch.__version__
    before = level()
    assert before is not None, "torch keeps its level elsewhere now"
    hush()
    hush()
    assert level() == max(before, ERROR)
    restore()
    assert level() == before
    restore()
    assert level() == before


def test_frees_of_what_was_there_before_are_not_warned_of() -> None:
    result = subprocess.run(
        [sys.executable, "-c", FREES], capture_output=True, text=True, timeout=120, check=True
    )
    assert "unknown size" not in result.stderr


def test_where_torch_hides_it_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_log, "_SYMBOL", "no_such_symbol")
    hush()
    restore()
    assert level() is None
