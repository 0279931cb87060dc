"""``GET stream``: a WebSocket that begins with the past and goes on with the present."""

from __future__ import annotations

import asyncio
import time
from typing import Any, cast

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_vram.server.hub import Client, Watch, encode
from jupyter_vram.server.parameters import (
    BadRequestError,
    interval_from,
    points_from,
    seconds_from,
)
from jupyter_vram.server.routes import AUTH_RESOURCE, SERVICE
from jupyter_vram.server.service import VramService

ERROR_EVERY_S = 1.0
"""A client that floods with nonsense is told so no more often."""


class StreamHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """One browser tab. The bases are in the order that Jupyter's own WebSockets have."""

    auth_resource = AUTH_RESOURCE
    _track_activity = False
    max_message_size = 64 * 1024
    """Tornado drops the connection at a larger message, before it is in memory as a whole."""

    _client: Client | None = None
    _watch: Watch | None = None
    _greeting: asyncio.Task[None] | None = None
    _error_at = float("-inf")

    @property
    def service(self) -> VramService:
        """The one of this server."""
        return cast("VramService", self.settings[SERVICE])

    def set_default_headers(self) -> None:
        """None: those of a page make no sense here."""

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Check who asks, and for what, before the protocol is switched."""
        user = self.current_user
        allowed = self.authorizer.is_authorized(self, user, "read", AUTH_RESOURCE)
        if not await ensure_async(allowed):
            raise web.HTTPError(403, f"User is not authorized to read: {AUTH_RESOURCE}.")
        try:
            self._seconds = seconds_from(self.get_query_argument("seconds", None))
            self._points = points_from(self.get_query_argument("points", None))
        except BadRequestError as error:
            raise web.HTTPError(400, str(error)) from error
        await super().get(*args, **kwargs)

    def open(self, *_args: Any, **_kwargs: Any) -> None:
        """Start Jupyter's pings, and greet."""
        super().open()
        # The wish comes first: it wakes a poller that measures in the background only, and the
        # client's own wish, which may be on its way already, must find it.
        self._watch = self.service.poller.watch(self.service.interval_s)
        self._greeting = asyncio.ensure_future(self._greet(self._watch))

    async def _greet(self, watch: Watch) -> None:
        try:
            tick = await self.service.first_tick()
            text = await self.service.first_message(tick, self._seconds, self._points)
            await self.write_message(text)
            if self.ws_connection is None:
                raise WebSocketClosedError
        except (WebSocketClosedError, asyncio.CancelledError):
            watch.close()
            return
        except Exception:
            # Left open, it would stay mute; closed, the client tries again.
            self.log.exception("A stream of jupyter-vram could not be begun.")
            watch.close()
            self.close(1011, "The stream could not be begun: see the server's log.")
            return
        self._client = self.service.hub.join(self.write_message, watch, tick)

    def on_message(self, message: str | bytes) -> None:
        """``configure`` sets the rate; anything else is answered by an ``error``."""
        try:
            interval_s = interval_from(message)
        except BadRequestError as error:
            self._complain(str(error))
            return
        if self._watch is not None:
            self._watch.interval_s = interval_s

    def _complain(self, sentence: str) -> None:
        now = time.monotonic()
        if now - self._error_at < ERROR_EVERY_S or self.ws_connection is None:
            return
        self._error_at = now
        text = encode({"type": "error", "code": "bad-message", "message": sentence})
        asyncio.ensure_future(self._write_or_leave(text))  # noqa: RUF006  ends by itself

    async def _write_or_leave(self, text: str) -> None:
        try:
            await self.write_message(text)
        except WebSocketClosedError:
            self.on_close()

    def on_close(self) -> None:
        """The tab is gone, or the connection."""
        if self._greeting is not None:
            self._greeting.cancel()
        if self._watch is not None:
            self._watch.close()  # a greeting that has not begun does not
        if self._client is not None:
            self._client.close()
            self._client = None
