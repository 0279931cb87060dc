"""A real Jupyter server in this process, behind a token and a base URL, over the stand-in NVML."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from jupyter_vram.server.service import VramService
from support.fake_nvml import FakeNvml
from support.streams import API, Notebook, Stream
from wire.schema import check


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


@pytest.fixture
def start(
    get: Any, jp_serverapp: Any, jp_fetch: Callable[..., Awaitable[Any]], jp_asyncio_loop: Any
) -> Iterator[Any]:
    """`await start("a.ipynb")`: a `Notebook`; its kernel is shut down after the test."""

    async def start_one(path: str, **fields: Any) -> Notebook:
        kernel = {"name": "python3", **fields.pop("kernel", {})}
        body = {"path": path, "type": "notebook", "name": "", "kernel": kernel, **fields}
        response = await jp_fetch(
            "api", "sessions", method="POST", body=json.dumps(body), request_timeout=120
        )
        return Notebook(jp_serverapp, jp_fetch, json.loads(response.body))

    yield start_one
    jp_asyncio_loop.run_until_complete(jp_serverapp.kernel_manager.shutdown_all(now=True))


@pytest.fixture
def kernel_when(get: Any) -> Callable[..., Awaitable[Any]]:
    """`await kernel_when(notebook, wanted)`: the kernel's view, once it is as `wanted`."""

    async def wait(
        notebook: Notebook, wanted: Callable[[Any], Any] = bool, timeout_s: float = 60
    ) -> Any:
        deadline = time.monotonic() + timeout_s
        view = None
        while time.monotonic() < deadline:
            snapshot = await get("snapshot")
            check(snapshot, "snapshot")
            views = {view["kernel_id"]: view for view in snapshot["kernels"]}
            view = views.get(notebook.kernel_id)
            if view is not None and wanted(view):
                return view
            await asyncio.sleep(0.1)
        raise AssertionError(f"never as wanted; at last {view}")

    return wait
