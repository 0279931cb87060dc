"""How often is measured, how long is waited, and what is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ShowHost = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerSettings:
    """Rates, all in seconds, and what to show."""

    min_interval_s: float = 0.1
    max_interval_s: float = 3600.0
    background_interval_s: float = 10.0
    """While nobody watches: only so that the history has no gap."""
    process_interval_s: float = 2.0
    """Lists of processes are slow to get: they are not read more often than this."""
    patience_s: float = 0.8
    """So long a turn waits for a driver; then it goes on with what was last known."""
    first_patience_s: float = 3.0
    """So long the first turn waits: a driver that nobody uses yet takes its time to start."""
    show_host: ShowHost = "auto"
    """``auto``: the host's memory is a device only where there is no other."""

    def clamp(self, interval_s: float) -> float:
        """`interval_s` within what this server allows; what is no number is the slowest."""
        if math.isnan(interval_s):
            return self.max_interval_s
        return min(self.max_interval_s, max(self.min_interval_s, interval_s))
