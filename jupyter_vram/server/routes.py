"""The REST routes (docs/http-api.md): parse, call the service, answer."""

from __future__ import annotations

from typing import Any, cast

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from jupyter_vram.errors import HistoryError
from jupyter_vram.server.hub import encode
from jupyter_vram.server.parameters import BadRequestError, points_from, seconds_from
from jupyter_vram.server.service import VramService

AUTH_RESOURCE = "jupyter_vram"
SERVICE = "jupyter_vram_service"
"""The key of the service in the web application's settings."""


class VramHandler(APIHandler):
    """What the routes share. Asking is no activity: polling must not defeat the idle culler."""

    auth_resource = AUTH_RESOURCE
    _track_activity = False

    @property
    def service(self) -> VramService:
        """The one of this server."""
        return cast("VramService", self.settings[SERVICE])

    def answer(self, text: str) -> Any:
        """End with JSON that nobody may keep."""
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        return self.finish(text)

    def refuse(self, status: int, sentence: str) -> Any:
        """End as Jupyter's errors do, but with a sentence that may hold the client's words.

        An `HTTPError`'s message is a format: each "%" would be doubled.
        """
        self.set_status(status)
        return self.answer(encode({"message": sentence, "reason": None}))


class SnapshotHandler(VramHandler):
    """``GET snapshot``."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Who holds what now."""
        await self.answer(encode(await self.service.snapshot_now()))


class HistoryHandler(VramHandler):
    """``GET history?device=…&seconds=…&points=…``."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """What one device's memory was."""
        device_id = self.get_query_argument("device", None)
        if not device_id:
            await self.refuse(400, "Name a device: history?device=<id of a device>")
            return
        try:
            seconds = seconds_from(self.get_query_argument("seconds", None))
            points = points_from(self.get_query_argument("points", None))
            text = await self.service.history_of(device_id, seconds, points)
        except BadRequestError as error:
            await self.refuse(400, str(error))
        except HistoryError as error:
            await self.refuse(404, str(error))
        else:
            await self.answer(text)
