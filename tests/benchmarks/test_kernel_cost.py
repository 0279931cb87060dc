"""What a cell's begin and end take is measured where they are called."""

from __future__ import annotations

from pathlib import Path

from benchmarks.kernel import cell_cost, cell_times


def test_begin_and_end_of_cells_are_timed(tmp_path: Path) -> None:
    times = cell_times(tmp_path / "cells", 20, "x = 1")
    assert len(times) == 20
    assert all(0 < time < 1 for time in times)
    result = cell_cost("begin and end", times)
    assert result.unit == "ms"
    assert min(times) <= (result.value or 0) / 1e3 <= max(times)
