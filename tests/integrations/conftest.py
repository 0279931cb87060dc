"""Environments with other versions of Python, JupyterLab, Notebook and torch."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.browser import (
    browser_context_args,
    browser_type_launch_args,
    jp_asyncio_loop,
    jp_server_cleanup,
    shot,
)

__all__ = [
    "browser_context_args",
    "browser_type_launch_args",
    "jp_asyncio_loop",
    "jp_server_cleanup",
    "shot",
]

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout as a release would be."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT]
    subprocess.run([str(part) for part in command], check=True)
    [path] = folder.glob("*.whl")
    return path


def interpreter(version: str) -> str:
    """The path of ``pythonX.Y``, or the test is skipped: this machine has none."""
    found = shutil.which(f"python{version}")
    # pyenv puts a command of that name on the path even if the version isn't the chosen one.
    if found and subprocess.run([found, "--version"], capture_output=True).returncode == 0:
        return found
    for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
        return str(path)
    pytest.skip(f"no Python {version} on this machine")
