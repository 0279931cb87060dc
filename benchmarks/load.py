"""The clients, as a process of their own: ``python load.py SPEC`` opens their WebSockets.

SPEC is JSON: ``url``, ``token``, ``clients``, ``timeout_s`` and ``sockets``, those of each client:
a ``path``, and the ``message`` to send once the server has said something, as the front ends do.

It prints ``{"connected": …}`` when all are open (or the time is up). Each line that it then reads
makes it print what has come since the line before; the end of its input ends it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect


@dataclass
class Received:
    """By all sockets together."""

    messages: int = 0
    payload_bytes: int = 0
    first_bytes: int = 0
    """Of the messages that came before a socket had sent its own."""
    since: float = 0.0


async def keep_reading(spec: dict[str, Any], socket: dict[str, Any], received: Received) -> None:
    """Open one socket; return once it streams, and go on reading in the background."""
    request = HTTPRequest(
        f"{spec['url']}/{socket['path']}",
        headers={"Authorization": f"token {spec['token']}"},
        connect_timeout=spec["timeout_s"],
        request_timeout=spec["timeout_s"],
    )
    connection = await websocket_connect(request, max_message_size=64 << 20)
    first = await connection.read_message()
    received.first_bytes += len(first or "")
    await connection.write_message(json.dumps(socket["message"]))

    async def read() -> None:
        while (message := await connection.read_message()) is not None:
            received.messages += 1
            received.payload_bytes += len(message)

    background.append(asyncio.ensure_future(read()))


background: list[asyncio.Future[None]] = []


async def main(spec: dict[str, Any]) -> None:
    received = Received()
    sockets = [socket for _ in range(spec["clients"]) for socket in spec["sockets"]]
    opening = [asyncio.ensure_future(keep_reading(spec, s, received)) for s in sockets]
    if opening:
        await asyncio.wait(opening, timeout=spec["timeout_s"])
    errors = [error for o in opening if o.done() and (error := o.exception())]
    tell(
        {
            "connected": sum(o.done() for o in opening) - len(errors),
            "wanted": len(sockets),
            "first_bytes": received.first_bytes,
            "error": repr(errors[0]) if errors else None,
        }
    )
    loop = asyncio.get_running_loop()
    received.since = time.monotonic()
    before = Received(since=received.since)
    while await loop.run_in_executor(None, sys.stdin.readline):
        now = Received(received.messages, received.payload_bytes, since=time.monotonic())
        tell(
            {
                "messages": now.messages - before.messages,
                "payload_bytes": now.payload_bytes - before.payload_bytes,
                "seconds": now.since - before.since,
                "closed": sum(reading.done() for reading in background),
            }
        )
        before = now
    for task in (*opening, *background):
        task.cancel()


def tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
