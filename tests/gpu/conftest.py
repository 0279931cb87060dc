"""On a machine with an NVIDIA GPU and a CUDA build of torch; elsewhere these tests are skipped.

All that touches a GPU runs in processes of its own: this one may have loaded the stand-in for NVML.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.worker import Worker

_FIND_GPU = """
def find():
    try:
        import pynvml
        pynvml.nvmlInit()
        if pynvml.nvmlDeviceGetCount() == 0:
            return "the NVIDIA driver lists no GPU"
    except Exception as error:
        return f"no NVIDIA driver to be used here ({error})"
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.version.cuda:
        return f"torch {torch.__version__} is a build without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no GPU that it can use"
answer = find()
"""


@pytest.fixture(scope="session")
def why_no_gpu() -> str | None:
    worker = Worker()
    try:
        reason = worker.run(_FIND_GPU)
    finally:
        worker.stop()
    assert reason is None or isinstance(reason, str)
    return reason


@pytest.fixture
def new_worker(why_no_gpu: str | None) -> Iterator[Callable[..., Worker]]:
    """Starts workers, with `env`, that are stopped after the test."""
    if why_no_gpu is not None:
        pytest.skip(f"needs a real GPU: {why_no_gpu}")
    workers: list[Worker] = []

    def start(**env: str) -> Worker:
        workers.append(Worker(**env))
        return workers[-1]

    yield start
    for worker in workers:
        worker.stop()
