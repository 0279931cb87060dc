"""The past of one device: rows at the polling rate, and a longer time of rows thinned out."""

from __future__ import annotations

from dataclasses import dataclass, field

from jupyter_vram.recorders.table import Row, Table, extremes

FINE_SPAN_S = 15 * 60.0
THIN_SPAN_S = 24 * 3600.0
THIN_WIDTH_S = 180.0
MAX_PART_COLUMNS = 60
"""Per device. Beyond, the kernels that ended longest ago are counted as other processes."""

PartKey = tuple[str, str]
"""Kernel id and name of the part."""


@dataclass(slots=True)
class DeviceHistory:
    """Takes one row after the other, and keeps what is worth it."""

    fine: Table = field(default_factory=lambda: Table(FINE_SPAN_S))
    thin: Table = field(default_factory=lambda: Table(THIN_SPAN_S))
    low: tuple[float, Row] | None = None
    high: tuple[float, Row] | None = None
    interval_s: float = 1.0

    def append(self, time: float, interval_s: float, row: Row) -> None:
        """Add a row, read at a rate of one in `interval_s`."""
        self.interval_s = interval_s
        self.fine.append(time, row)
        self._thin_out(time, row)
        for table in (self.fine, self.thin):
            _cap(table)

    def _thin_out(self, time: float, row: Row) -> None:
        low, high = self.low, self.high
        if low is None or high is None:
            self.low = self.high = (time, row)
        elif low[0] // THIN_WIDTH_S != time // THIN_WIDTH_S:
            self.thin.append(*min(low, high, key=_time))
            if low[0] != high[0]:
                self.thin.append(*max(low, high, key=_time))
            self.low = self.high = (time, row)
        elif (used := row.get("used_bytes")) is not None:
            lowest, highest = low[1].get("used_bytes"), high[1].get("used_bytes")
            if lowest is None or used < lowest:
                self.low = (time, row)
            if highest is None or used > highest:
                self.high = (time, row)


class Selection:
    """The rows of a device since a time: thinned ones first, then those at the polling rate."""

    def __init__(self, device: DeviceHistory, since: float) -> None:
        self._fine, self._thin = device.fine, device.thin
        self._fine_rows: list[int] = list(device.fine.rows_from(since))
        first_fine = device.fine.times[0]
        thin = device.thin.times
        self._thin_rows = [p for p in device.thin.rows_from(since) if thin[p] < first_fine]
        self._refresh_times()

    def _refresh_times(self) -> None:
        self.times = [self._thin.times[p] for p in self._thin_rows]
        self.times += [self._fine.times[p] for p in self._fine_rows]

    @property
    def has_thin(self) -> bool:
        """Some of the rows are of the thinned past."""
        return bool(self._thin_rows)

    def column(self, key: str | PartKey) -> list[float | None]:
        """The values of one column."""
        thin = self._thin.take(key, self._thin_rows)
        return thin + self._fine.take(key, self._fine_rows)

    def part_keys(self, since: float) -> list[PartKey]:
        """The kernels' parts that have a value since then."""
        keys = dict.fromkeys((*self._thin.used_since(since), *self._fine.used_since(since)))
        return [key for key in keys if isinstance(key, tuple)]

    def thin_out(self, width_s: float, max_points: int) -> None:
        """Keep, of each `width_s`, the rows where least and most was used."""
        chosen = extremes(self.times, self.column("used_bytes"), width_s)
        # The span may touch one stretch more than fits: the oldest rows go.
        chosen = chosen[-max_points:]
        split = len(self._thin_rows)
        self._fine_rows = [self._fine_rows[p - split] for p in chosen if p >= split]
        self._thin_rows = [self._thin_rows[p] for p in chosen if p < split]
        self._refresh_times()


def _time(moment: tuple[float, Row]) -> float:
    return moment[0]


def _cap(table: Table) -> None:
    if len(table.keys) <= MAX_PART_COLUMNS:
        return
    parts = [key for key in table.keys if isinstance(key, tuple)]
    for key in sorted(parts, key=table.last_set)[: max(0, len(parts) - MAX_PART_COLUMNS)]:
        table.fold(key, into="other_bytes")
