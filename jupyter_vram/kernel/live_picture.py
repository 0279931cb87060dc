"""One live view's widgets: what is drawn, and whether anybody still sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from jupyter_vram.render.live_html import LiveSample, live_html

PING_S = 5.0
PATIENCE_S = 60.0
"""Without an answer; the time while a cell runs does not count, as answers wait for its end."""
# A browser's timer holds no more. The beat is ours, so that a page in the background answers too.
_NEVER_MS = 2**31 - 1


class Picture:
    """Widgets of one view. Its methods are called by one thread, answers come in another."""

    def __init__(self, window_s: float, interval_s: float) -> None:
        """Raises:
        ImportError: ipywidgets is not installed.
        """
        self.window_s = window_s
        self.interval_s = interval_s
        self._heard_at = time.monotonic()
        self._asked_at = self._drawn_at = 0.0
        self._samples: Sequence[LiveSample] = ()
        self._figures, self._pulse, self._box = _widgets(self._on_answer)

    def bundle(self) -> dict[str, Any]:
        """What shows it in an output, by mime type."""
        return dict(self._box._repr_mimebundle_())

    def is_due(self, now: float) -> bool:
        """Whether it is to be drawn, at the monotonic clock's `now`."""
        # Turns come a little early or late: a tenth of the interval must not cost a whole one.
        return now - self._drawn_at >= 0.9 * self.interval_s

    def draw(self, samples: Sequence[LiveSample], now: float) -> None:
        """Show the latest of `samples`, and those before within the window."""
        self._drawn_at, self._samples = now, samples
        self._figures.value = live_html(samples, window_s=self.window_s)

    def end(self, note: str) -> None:
        """Let the last picture stand, with a sentence beneath."""
        self._figures.value = live_html(self._samples, window_s=self.window_s, note=note)

    def is_watched(self, now: float, *, busy: bool) -> bool:
        """Whether it has answered lately; asks it now and then."""
        if busy:
            self._heard_at = now
        elif now - self._asked_at >= PING_S:
            self._asked_at = now
            self._ask()
        return now - self._heard_at <= PATIENCE_S

    def _ask(self) -> None:
        # A view that sees `playing` become true counts on at once, and tells. Sent, not set: the
        # main thread may be setting this widget's state, and a page opened later must see it off.
        for playing in (False, True):
            state = {"playing": playing}
            self._pulse.comm.send(data={"method": "update", "state": state, "buffer_paths": []})

    def _on_answer(self, _: object) -> None:
        self._heard_at = time.monotonic()


def _widgets(on_answer: Callable[[object], None]) -> tuple[Any, Any, Any]:
    """What shows the figures; what answers, unseen; and a box of both."""
    import ipywidgets  # type: ignore[import-untyped]

    figures = ipywidgets.HTML()
    pulse = ipywidgets.Play(
        min=0, max=_NEVER_MS, interval=_NEVER_MS, layout=ipywidgets.Layout(display="none")
    )
    pulse.observe(on_answer, "value")
    return figures, pulse, ipywidgets.VBox([figures, pulse])
