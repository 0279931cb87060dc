"""Kernels in folders of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kernels import Kernel, Kernels

TESTS = Path(__file__).resolve().parents[1]
STARTUP_FILE = TESTS.parent / "etc/ipython/startup/50-jupyter-vram.py"


@pytest.fixture
def bare_kernels(tmp_path: Path) -> Iterator[Kernels]:
    """Kernels without the startup file (but that of this environment, if it is installed)."""
    for name in ("runtime", "ipython"):
        (tmp_path / name).mkdir(mode=0o700)
    env = {
        **os.environ,
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "PYTHONPATH": str(TESTS),
    }
    env.pop("JUPYTER_VRAM_KERNEL", None)
    kernels = Kernels(tmp_path, env)
    try:
        yield kernels
    finally:
        kernels.stop()


@pytest.fixture
def kernels(bare_kernels: Kernels, tmp_path: Path) -> Kernels:
    """Kernels that find the startup file, in the user's profile."""
    startup = tmp_path / "ipython/profile_default/startup"
    startup.mkdir(parents=True)
    shutil.copy(STARTUP_FILE, startup)
    return bare_kernels


@pytest.fixture
def kernel(kernels: Kernels) -> Kernel:
    return kernels.start()
