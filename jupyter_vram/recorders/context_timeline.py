"""What ran when: the contexts of a recording over time, for events that tell no stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jupyter_vram.model.trace import NONE, Context


@dataclass(frozen=True, slots=True)
class ThreadTimeline:
    """One thread's contexts: row ``i`` holds from ``time_ns[i]`` until the next row begins."""

    time_ns: NDArray[np.int64]
    """Nanoseconds since the epoch; never falls."""
    context: NDArray[np.int32]
    """Row of `ContextTimeline.contexts`; `NONE` where nothing is known."""

    def __post_init__(self) -> None:
        if len(self.time_ns) != len(self.context):
            raise ValueError("a time line needs one context for each time")

    def at(self, times_ns: NDArray[np.int64]) -> NDArray[np.int32]:
        """The context at each time; `NONE` before the first row."""
        rows = np.searchsorted(self.time_ns, times_ns, side="right") - 1
        if not len(self.context):
            return np.full(len(rows), NONE, np.int32)
        return np.where(rows >= 0, self.context[rows], NONE).astype(np.int32)


@dataclass(frozen=True, slots=True)
class ContextTimeline:
    """The contexts of all threads. Autograd's threads come first: what they do has no stack of its
    own, while the main thread's line says no more than ``loss.backward()``."""

    contexts: tuple[Context, ...] = ()
    threads: Mapping[int, ThreadTimeline] = field(default_factory=dict)
    """By thread id, in the order in which they are asked."""

    def at(self, times_ns: NDArray[np.int64]) -> NDArray[np.int32]:
        """Row of `contexts` at each time: of the first thread that knows one; else `NONE`."""
        found = np.full(len(times_ns), NONE, np.int32)
        for thread in self.threads.values():
            missing = found == NONE
            if not missing.any():
                break
            found[missing] = thread.at(times_ns[missing])
        return found
