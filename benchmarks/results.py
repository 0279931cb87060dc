"""What the benchmarks bring: figures with their goals, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["", "met", "missed", "unresolved", "not measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure."""

    part: str
    name: str
    value: float | None
    """``None``: it could not be measured; `note` says why."""
    unit: str
    goal: float | None = None
    """At most so much, in `unit`."""
    low: float | None = None
    high: float | None = None
    """Between these the true figure is likely (see `note`)."""
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the goal is met; ``unresolved`` where the goal lies inside the spread."""
        if self.value is None:
            return "not measured"
        if self.goal is None:
            return ""
        if self.low is not None and self.high is not None and self.low <= self.goal < self.high:
            return "unresolved"
        return "met" if self.value <= self.goal else "missed"

    def to_json(self) -> dict[str, Any]:
        fields = {**dataclasses.asdict(self), "verdict": self.verdict}
        return {
            name: _rounded(value) for name, value in fields.items() if value not in (None, "")
        } | {"value": _rounded(self.value)}


def percentile(values: Iterable[float], percent: float) -> float:
    """The least value that at least `percent` % of the values do not exceed (nearest rank).

    Raises:
        ValueError: there are no values, or `percent` is not in (0, 100].
    """
    ordered = sorted(values)
    if not ordered or not 0 < percent <= 100:
        raise ValueError(f"no {percent} % of {len(ordered)} values")
    return ordered[math.ceil(percent / 100 * len(ordered)) - 1]


def median_interval(values: Iterable[float]) -> tuple[float, float]:
    """Order statistics that enclose the median with a probability of at least 95 %.

    With fewer than six values no such pair exists: then it is the least and the greatest.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside = 0.0
    rank = -1  # so many values may be left out at each end, plus one
    while rank + 1 < count / 2:
        outside += math.comb(count, rank + 1) / 2**count
        if 2 * outside > 0.05:
            break
        rank += 1
    rank = max(rank, 0)
    return ordered[rank], ordered[count - 1 - rank]


def figure(value: float | None) -> str:
    """Three significant digits, and no more zeros than needed."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"


def table(results: Sequence[Result]) -> str:
    """All figures, part by part, for a terminal."""
    rows = [("figure", "measured", "spread", "goal", "")]
    for result in results:
        spread = (
            ""
            if result.low is None or result.high is None
            else f"{figure(result.low)} … {figure(result.high)}"
        )
        goal = "" if result.goal is None else f"≤ {figure(result.goal)} {result.unit}"
        name = f"{result.part}: {result.name}"
        rows.append((name, f"{figure(result.value)} {result.unit}", spread, goal, result.verdict))
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the first one to the left, the figures to the right."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            text.ljust(width) if place in (0, len(row) - 1) else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one part of the benchmarks brought, and when. `raw` is JSON: every single figure."""

    results: Sequence[Result]
    raw: Any
    date: str
    took_s: float
    load_average: float
    """Of the machine, before."""

    def to_json(self) -> dict[str, Any]:
        return {
            "date": self.date,
            "took_s": _rounded(self.took_s),
            "load_average": _rounded(self.load_average),
            "results": [result.to_json() for result in self.results],
            "raw": self.raw,
        }


def write(path: Path, hardware: Mapping[str, Any], parts: Mapping[str, Part]) -> None:
    """Keep the parts beside the hardware that they are of.

    Parts that the file has of an earlier run stay, if they are of the same hardware and packages.
    """
    kept: dict[str, Any] = {}
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before.get("hardware") == dict(hardware):
            kept = before["parts"]
    new = {name: part.to_json() for name, part in parts.items()}
    content = {"hardware": dict(hardware), "parts": {**kept, **new}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value
