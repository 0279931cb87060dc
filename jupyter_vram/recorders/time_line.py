"""What was current from when to when: two growing columns, thinned as they grow."""

from __future__ import annotations

from array import array

import numpy as np

from jupyter_vram.model.trace import Int64

BUFFER = 50_000
"""Entries between two thinnings."""
LIMIT = 1_000_000
"""Entries kept at most, of 16 bytes each."""
SHORTEST_NS = 1_500
"""A torch operation takes longer under the profiler, so what was left sooner allocated nothing.
Where tracing an empty line takes longer itself, see `TimeLine.calibrate`."""
HOT_TIMES = 500
"""What was current so often between two thinnings, and always too shortly, can be left out."""


class TimeLine:
    """Pairs of time and id, in the order of time: each id is current until the next pair.

    Whoever writes appends to `times` (ns since the epoch) and `ids`, and calls `thin` when there
    are `limit` of them.
    """

    def __init__(self) -> None:
        self.times = array("q")
        self.ids = array("q")
        self.limit = BUFFER
        self._shortest_ns = SHORTEST_NS
        self._thinned = 0
        self.coarse_ns = 0
        """What was shorter counts for what was before it; 0: only where nothing can be lost."""

    def calibrate(self, empty_ns: int) -> None:
        """Tell what an empty line takes: one with an operation takes more than twice as long."""
        self._shortest_ns = max(SHORTEST_NS, 2 * empty_ns)

    def thin(self) -> set[int]:
        """Drop what was current for too short a time to have allocated.

        Returns the ids that are always so short, and so often, that they can be left out.
        """
        times = np.frombuffer(self.times, np.int64)
        ids = np.frombuffer(self.ids, np.int64)
        lasted = np.diff(times, append=np.iinfo(np.int64).max)
        kept = lasted >= self._shortest_ns
        hot = self._hot(ids[self._thinned :], kept[self._thinned :])
        times, ids, lasted = times[kept], ids[kept], lasted[kept]
        while len(times) > LIMIT:
            self._shortest_ns *= 2
            self.coarse_ns = self._shortest_ns
            kept = lasted >= self._shortest_ns
            # Longer than before, now that the ones in between are gone.
            times, ids = times[kept], ids[kept]
            lasted = np.diff(times, append=np.iinfo(np.int64).max)
        # In place: writers hold on to the bound `append`.
        for column, values in ((self.times, times), (self.ids, ids)):
            data = values.tobytes()
            del column[:]
            column.frombytes(data)
        self._thinned = len(self.times)
        self.limit = self._thinned + BUFFER
        return hot

    @staticmethod
    def _hot(ids: Int64, kept: np.ndarray) -> set[int]:
        known, at, counts = np.unique(ids, return_inverse=True, return_counts=True)
        long = np.bincount(at, weights=kept, minlength=len(known))
        # One in twenty may be long: other threads and the garbage collector interrupt.
        return set(known[(counts >= HOT_TIMES) & (long * 20 <= counts)].tolist())

    def columns(self) -> tuple[Int64, Int64]:
        """Times and ids, of equal length."""
        return np.array(self.times, np.int64), np.array(self.ids, np.int64)
