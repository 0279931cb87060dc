"""Every point of docs/nvml.md names tests, and those exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/nvml.md").read_text(encoding="utf-8")
POINTS = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]


def test_each_point_names_tests_that_exist() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    tests = set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(sources), re.MULTILINE))
    assert POINTS
    for point in POINTS:
        named = re.findall(r"`(test_\w+)`", point)
        assert named, point
        assert set(named) <= tests, set(named) - tests
