"""What tests of the running extension share: a client of its stream, a notebook, waiting."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar

from jupyter_client.session import Session

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


class Notebook:
    """A notebook's session, and a way to run code in its kernel."""

    def __init__(self, server: Any, fetch: Callable[..., Awaitable[Any]], model: Any) -> None:
        self._server = server
        self._fetch = fetch
        self.session_id = model["id"]
        self.kernel_id = model["kernel"]["id"]

    @property
    def manager(self) -> Any:
        return self._server.kernel_manager.get_kernel(self.kernel_id)

    @property
    def pid(self) -> int:
        return int(self.manager.provisioner.pid)

    async def call(self, *path: str, method: str, body: Any = None) -> Any:
        text = None if body is None else json.dumps(body)
        return await self._fetch(
            *path, method=method, body=text, allow_nonstandard_methods=True, request_timeout=120
        )

    async def run(self, code: str) -> str:
        """What `code` prints."""
        # Of its own: a kernel hears only the first of two clients with one session's identity.
        client = self.manager.client(session=Session(key=self.manager.session.key))
        client.start_channels(hb=False)
        try:
            await client.wait_for_ready(timeout=120)
            printed: list[str] = []
            await client.execute_interactive(
                code,
                timeout=120,
                output_hook=lambda m: printed.append(m["content"].get("text", "")),
            )
        finally:
            client.stop_channels()
        return "".join(printed)


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
