"""When something that failed is worth another try."""

from __future__ import annotations

from collections.abc import Callable

PATIENCE_S = 3.0
"""While somebody watches: what came back is then shown within 5 s, a turn of polling included."""
LONGEST_S = 60.0
"""While nobody does; each failure doubles the wait up to here."""
_COST_SHARE = 20
_LONGEST_FOR_COST_S = 30.0


class Retry:
    """Decides by the time since the last failure, who watches, and what a try costs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._failed_at = 0.0
        self._cost_s = 0.0

    def due(self, *, watched: bool) -> bool:
        """Is it time? Always, if nothing failed."""
        if self._failures == 0:
            return True
        # A costly try must not take more than a twentieth of the time.
        wait = max(PATIENCE_S, min(_COST_SHARE * self._cost_s, _LONGEST_FOR_COST_S))
        if not watched:
            wait = min(wait * 2.0 ** min(self._failures - 1, 16), LONGEST_S)
        return self._clock() - self._failed_at >= wait

    def failed(self, cost_s: float = 0.0) -> None:
        """A try failed now, after `cost_s`."""
        self._failures += 1
        self._failed_at = self._clock()
        self._cost_s = cost_s

    def succeeded(self) -> None:
        """All is well: the next failure is a first one."""
        self._failures = 0
