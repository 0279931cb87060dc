"""What tests of the running extension share: its address, a client of its stream, waiting."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Literal, TypeVar

API = ("jupyter-vram", "api", "v1")
T = TypeVar("T")


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
