"""``%vram live``: this kernel's memory as a moving timeline in a cell's output.

It moves while cells run, in any front end that shows ipywidgets, and stops by itself once no page
has answered for a minute in which the kernel could have heard it.
"""

from __future__ import annotations

import time
from typing import Any

from jupyter_vram.errors import LiveError
from jupyter_vram.kernel.live_beat import Beat, read_sample
from jupyter_vram.kernel.live_picture import Picture
from jupyter_vram.kernel.reporter import read_report
from jupyter_vram.render.live_html import live_text
from jupyter_vram.render.text import report_html, report_text

LEAST_INTERVAL_S, MOST_INTERVAL_S = 0.1, 60.0
LEAST_WINDOW_S, MOST_WINDOW_S = 5.0, 3600.0
NO_WIDGETS = "It does not move, as ipywidgets is not installed here: pip install ipywidgets"

_beat = Beat()


def live(seconds: float = 60.0, interval: float = 0.5) -> LiveView:
    """A view of the last `seconds` of this kernel's memory, drawn anew every `interval` seconds.

    Show it as a cell's last expression, or by ``display(live())``.

    Raises:
        LiveError: `seconds` is not within 5 to 3600, or `interval` not within 0.1 to 60.
    """
    if not LEAST_WINDOW_S <= seconds <= MOST_WINDOW_S:
        raise LiveError(f"A live view shows 5 to 3600 seconds, not {seconds!r}.")
    if not LEAST_INTERVAL_S <= interval <= MOST_INTERVAL_S:
        raise LiveError(f"A live view is drawn every 0.1 to 60 seconds, not every {interval!r}.")
    try:
        picture = Picture(float(seconds), float(interval))
    except ImportError:
        return LiveView(None)
    _beat.add(picture)
    return LiveView(picture)


def stop() -> None:
    """Stop all views, and the thread that moves them. They stay in their outputs."""
    _beat.stop()


class LiveView:
    """What `live` returns: shows itself as a cell's output."""

    def __init__(self, picture: Picture | None) -> None:
        self._picture = picture

    def close(self) -> None:
        """Stop it. It stays in its output, as it is."""
        if self._picture is not None:
            _beat.remove(self._picture)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        if self._picture is None:
            report = read_report(period_s=0.0)
            return {
                "text/plain": f"{report_text(report)}\n\n{NO_WIDGETS}",
                "text/html": f"{report_html(report)}<p>{NO_WIDGETS}</p>",
            }
        # The text is for front ends without widgets, and for a notebook that is only read.
        text = f"Memory of this kernel, live. {live_text(read_sample(time.monotonic()))}"
        return {**self._picture.bundle(), "text/plain": text}
