"""Ticks to the browsers: each gets the latest, none is queued for, and nothing is encoded twice.

All of this runs on the event loop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from tornado.websocket import WebSocketClosedError

from jupyter_vram.model.wire import SECTIONS, Json, Tick

log = logging.getLogger(__name__)


class Watch(Protocol):
    """A wish for a rate, as `jupyter_vram.recorders.poller.Watch`."""

    interval_s: float

    def close(self) -> None:
        """Wish no more."""
        ...


def encode(message: Json) -> str:
    """JSON, as compact as it gets."""
    return json.dumps(message, separators=(",", ":"))


class Client:
    """One stream. It is sent the latest tick, at most at its own rate, as fast as it reads."""

    def __init__(self, hub: Hub, send: Callable[[str], asyncio.Future[None]], watch: Watch) -> None:
        self._hub = hub
        self._send = send
        self._watch = watch
        self._seen: Mapping[str, int] | None = None
        self._sending: asyncio.Future[None] | None = None
        self._missed: Tick | None = None
        self._sent_at = float("-inf")

    @property
    def interval_s(self) -> float:
        """The client's own rate."""
        return self._watch.interval_s

    def close(self) -> None:
        """The stream has ended."""
        self._hub.leave(self)
        self._watch.close()
        self._missed = None

    def saw(self, tick: Tick) -> None:
        """The client has got the whole of `tick` by another way."""
        self._seen = tick.revisions
        self._sent_at = time.monotonic()

    def offer(self, tick: Tick, interval_s: float) -> None:
        """Send `tick`, unless the client wishes for fewer; keep it while an earlier one is sent."""
        if self._sending is not None:
            self._missed = tick
            return
        # Ticks come on their own beat, with some jitter: half a beat early is due.
        if time.monotonic() - self._sent_at < self.interval_s - interval_s / 2:
            return
        text = self._hub.encoded(tick, self._seen)
        self._seen = tick.revisions
        self._sent_at = time.monotonic()
        try:
            self._sending = self._send(text)
        except WebSocketClosedError:
            self.close()
        else:
            self._sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Future[None]) -> None:
        self._sending = None
        if sending.cancelled() or sending.exception() is not None:
            self.close()  # it has gone
            return
        missed, self._missed = self._missed, None
        if missed is not None:
            self.offer(missed, self._hub.interval_s)


class Hub:
    """All streams of one server."""

    def __init__(self) -> None:
        self._clients: set[Client] = set()
        self._tick: Tick | None = None
        self._texts: dict[tuple[str, ...], str] = {}
        self.interval_s = 0.0

    def __len__(self) -> int:
        return len(self._clients)

    def join(self, send: Callable[[str], asyncio.Future[None]], watch: Watch, seen: Tick) -> Client:
        """Add a stream that has got `seen`. `send` resolves once the client has taken the text."""
        client = Client(self, send, watch)
        client.saw(seen)
        self._clients.add(client)
        return client

    def leave(self, client: Client) -> None:
        """What `Client.close` does."""
        self._clients.discard(client)

    def publish(self, tick: Tick) -> None:
        """Offer a tick to every stream."""
        self._tick = tick
        self._texts.clear()
        self.interval_s = float(tick.snapshot["interval_s"])
        for client in tuple(self._clients):
            client.offer(tick, self.interval_s)

    def encoded(self, tick: Tick, seen: Mapping[str, int] | None) -> str:
        """`tick` cut to what a client saw, as text. Clients that saw the same share it."""
        if tick is not self._tick:
            return encode(tick.message(seen))
        key = (
            ("*",)
            if seen is None
            else tuple(name for name in SECTIONS if seen.get(name) != tick.revisions[name])
        )
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = encode(tick.message(seen))
        return text
