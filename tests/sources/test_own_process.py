"""This process's resident memory, with and without Linux's file."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from jupyter_vram.sources import own_process
from jupyter_vram.sources.own_process import resident_bytes

CLOSE = 0.05


def test_it_is_what_psutil_tells() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=CLOSE)


@pytest.mark.parametrize("text", [None, "", "nonsense here"])
def test_without_linux_or_its_file(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statm = tmp_path / "statm"
    if text is not None:
        statm.write_text(text)
    monkeypatch.setattr(own_process, "_STATM", statm)
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=CLOSE)


def test_unknown_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_process, "_STATM", tmp_path / "none")
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert resident_bytes() is None


def test_memory_that_is_taken_counts() -> None:
    before = resident_bytes() or 0
    held = bytearray(b"x") * (100 << 20)
    after = resident_bytes() or 0
    assert len(held) == 100 << 20
    assert after - before > 90 << 20
