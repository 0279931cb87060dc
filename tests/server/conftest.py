"""A real Jupyter server in this process, behind a token and a base URL, over the stand-in NVML."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

import pytest

from jupyter_vram.server.service import VramService
from support.fake_nvml import FakeNvml

API = ("jupyter-vram", "api", "v1")
T = TypeVar("T")


@pytest.fixture
def vram_config() -> dict[str, Any]:
    """Settings of the extension; a test overrides it by a fixture or parameter of its own."""
    return {}


@pytest.fixture
def jp_server_config(vram_config: dict[str, Any], loaded_nvml: FakeNvml) -> dict[str, Any]:
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_vram": True},
            "allow_unauthenticated_access": False,
        },
        "VramApp": vram_config,
    }


@pytest.fixture
def service(jp_serverapp: Any) -> VramService:
    found = jp_serverapp.web_app.settings["jupyter_vram_service"]
    assert isinstance(found, VramService)
    return found


@pytest.fixture
def get(jp_fetch: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """`await get("snapshot", device=…)`: the JSON answer of one of our routes."""

    async def fetch(route: str, **params: Any) -> Any:
        response = await jp_fetch(*API, route, params=params, request_timeout=60)
        return json.loads(response.body)

    return fetch


class Stream:
    """A client's end of a stream."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    async def read(self, timeout_s: float = 20) -> dict[str, Any]:
        text = await asyncio.wait_for(self.socket.read_message(), timeout_s)
        assert text is not None, "the server closed the stream"
        message = json.loads(text)
        assert isinstance(message, dict)
        return message

    async def until(self, wanted: Callable[[dict[str, Any]], Any], count: int = 400) -> Any:
        for _ in range(count):
            message = await self.read()
            if wanted(message):
                return message
        raise AssertionError("the message never came")

    async def send(self, message: Any) -> None:
        is_raw = isinstance(message, str | bytes)
        await self.socket.write_message(
            message if is_raw else json.dumps(message), binary=isinstance(message, bytes)
        )

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def open_stream(jp_ws_fetch: Callable[..., Awaitable[Any]], jp_asyncio_loop: Any) -> Any:
    """`await open_stream(seconds=…)`: a `Stream`, closed after the test."""
    opened: list[Stream] = []

    async def open_one(**params: Any) -> Stream:
        stream = Stream(await jp_ws_fetch(*API, "stream", params=params))
        opened.append(stream)
        return stream

    yield open_one
    for stream in opened:
        stream.close()


async def until(condition: Callable[[], T | Literal[False] | None], timeout_s: float = 30.0) -> T:
    """What `condition` returns once that is true, while the event loop runs."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened within {timeout_s} s")
        await asyncio.sleep(0.02)
