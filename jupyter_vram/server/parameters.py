"""What a client asks for, checked: numbers within limits, or a sentence why not."""

from __future__ import annotations

import json
import math
from typing import Any

from jupyter_vram.errors import VramError
from jupyter_vram.recorders.device_history import THIN_SPAN_S

DEFAULT_SECONDS = 600.0
DEFAULT_POINTS = 300
MIN_SECONDS = 1.0
MIN_POINTS, MAX_POINTS = 10, 5000
MAX_MESSAGE_CHARS = 4096
"""Of a client's message: the longest sensible one has some 50."""


class BadRequestError(VramError):
    """A client asked for something that can't be; the message says what can."""


def seconds_from(text: str | None) -> float:
    """Seconds of history; `None` is the default, what is out of range the nearest limit.

    Raises:
        BadRequestError: it is no number.
    """
    if text is None:
        return DEFAULT_SECONDS
    return min(THIN_SPAN_S, max(MIN_SECONDS, _number(text, "seconds")))


def points_from(text: str | None) -> int:
    """The most rows of history; `None` is the default, what is out of range the nearest limit.

    Raises:
        BadRequestError: it is no number.
    """
    if text is None:
        return DEFAULT_POINTS
    return int(min(MAX_POINTS, max(MIN_POINTS, _number(text, "points"))))


def interval_from(message: str | bytes) -> float:
    """The rate in a stream's ``configure`` message, in seconds; the server clamps it.

    Raises:
        BadRequestError: it is another message, or none at all.
    """
    if isinstance(message, bytes) or len(message) > MAX_MESSAGE_CHARS:
        raise BadRequestError(f"Send text of at most {MAX_MESSAGE_CHARS} characters.")
    try:
        fields = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise BadRequestError('Send JSON: {"type": "configure", "interval_s": 1.0}.') from error
    if not isinstance(fields, dict) or fields.get("type") != "configure":
        raise BadRequestError('The only message is {"type": "configure", "interval_s": 1.0}.')
    interval_s: Any = fields.get("interval_s")
    if isinstance(interval_s, bool) or not isinstance(interval_s, int | float):
        raise BadRequestError("interval_s must be a number of seconds.")
    if not 0 < interval_s < math.inf:
        raise BadRequestError("interval_s must be a number of seconds greater than 0.")
    return float(min(interval_s, 1e9))


def _number(text: str, name: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise BadRequestError(f"{name} must be a number, not {text[:40]!r}.")
    return number
