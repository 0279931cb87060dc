"""Real Chromium against a real server, driven by Playwright's synchronous API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.browser import (
    browser_context_args,
    browser_type_launch_args,
    gpu_env,
    jp_asyncio_loop,
    jp_server_cleanup,
    shot,
)
from support.fake_nvml import DRIVER_NOT_LOADED, GIB, FakeNvml
from support.jupyter import JupyterServer

__all__ = [
    "browser_context_args",
    "browser_type_launch_args",
    "jp_asyncio_loop",
    "jp_server_cleanup",
    "shot",
]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeNvml]:
    """One GPU of 24 GiB, of which the desktop holds a little."""
    path = tmp_path_factory.mktemp("nvml") / "state"
    with FakeNvml(path, total_bytes=24 * GIB, name="NVIDIA GeForce RTX 4090") as fake:
        fake.device(0).used_bytes = GIB // 2
        yield fake


@pytest.fixture(scope="module")
def lab(gpu: FakeNvml, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """JupyterLab on a machine with that GPU."""
    with JupyterServer(tmp_path_factory.mktemp("lab"), env=gpu_env(gpu)) as server:
        yield server


@pytest.fixture(scope="module")
def no_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeNvml]:
    """A machine whose NVIDIA driver isn't loaded."""
    with FakeNvml(tmp_path_factory.mktemp("nvml") / "state") as fake:
        fake.fail_init(DRIVER_NOT_LOADED)
        yield fake
