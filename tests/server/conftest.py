"""A real Jupyter server in this process, behind a token and a base URL, over the stand-in NVML."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from jupyter_vram.server.service import VramService
from support.fake_nvml import FakeNvml
from support.streams import API, Stream


@pytest.fixture
def vram_config() -> dict[str, Any]:
    """Settings of the extension; a test overrides it by a fixture or parameter of its own."""
    return {}


@pytest.fixture
def gpu_count() -> int:
    """How many GPUs there are when the server starts; as `vram_config`."""
    return 1


@pytest.fixture
def jp_server_config(
    vram_config: dict[str, Any], loaded_nvml: FakeNvml, gpu_count: int
) -> dict[str, Any]:
    loaded_nvml.device_count = gpu_count
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_vram": True},
            "allow_unauthenticated_access": False,
        },
        "VramApp": vram_config,
    }


@pytest.fixture
def service(jp_serverapp: Any, jp_asyncio_loop: Any) -> Iterator[VramService]:
    """The one of the server under test, stopped before the stand-in's library goes."""
    found = jp_serverapp.web_app.settings["jupyter_vram_service"]
    assert isinstance(found, VramService)
    yield found
    jp_asyncio_loop.run_until_complete(found.stop())


@pytest.fixture
def get(
    service: VramService, jp_fetch: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    """`await get("snapshot", device=…)`: the JSON answer of one of our routes."""

    async def fetch(route: str, **params: Any) -> Any:
        response = await jp_fetch(*API, route, params=params, request_timeout=60)
        return json.loads(response.body)

    return fetch


@pytest.fixture
def open_stream(
    service: VramService, jp_ws_fetch: Callable[..., Awaitable[Any]]
) -> Iterator[Callable[..., Awaitable[Stream]]]:
    """`await open_stream(seconds=…)`: a `Stream`, closed after the test."""
    opened: list[Stream] = []

    async def open_one(**params: Any) -> Stream:
        stream = Stream(await jp_ws_fetch(*API, "stream", params=params))
        opened.append(stream)
        return stream

    yield open_one
    for stream in opened:
        stream.close()
