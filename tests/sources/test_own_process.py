"""The resident memory that a kernel reports of itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_vram.sources import own_process
from jupyter_vram.sources.own_process import resident_bytes

MIB = 1 << 20


def assert_near(actual: int | None, expected: int) -> None:
    assert actual is not None
    assert abs(actual - expected) < 16 * MIB


def test_it_is_what_the_system_tells_of_this_process() -> None:
    assert_near(resident_bytes(), psutil.Process().memory_info().rss)


def test_memory_in_use_is_in_it() -> None:
    before = resident_bytes()
    assert before is not None
    held = bytearray(128 * MIB)
    held[::4096] = b"x" * len(held[::4096])
    assert_near(resident_bytes(), before + len(held))


@pytest.mark.parametrize("content", [None, "", "12", "a b c"])
def test_psutil_tells_it_where_there_is_no_such_file(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "statm"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(own_process, "_STATM", file)
    assert_near(resident_bytes(), psutil.Process().memory_info().rss)


def test_unknown_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Any) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(own_process, "_STATM", tmp_path / "statm")
    monkeypatch.setattr(psutil.Process, "memory_info", denied)
    assert resident_bytes() is None
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert resident_bytes() is None
