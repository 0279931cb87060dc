"""Compiles the stand-in, once per content of its sources and per set of absent functions."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

SOURCES = Path(__file__).parent
BUILDS = SOURCES / "build"
LIBRARY_NAME = "libnvidia-ml.so.1"


@functools.cache
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for name in ("fake_nvml.c", "functions.h", "state.h"):
        digest.update((SOURCES / name).read_bytes())
    return digest.hexdigest()


def library(without: Iterable[str] = ()) -> Path:
    """The path of a built ``libnvidia-ml.so.1`` that lacks the functions `without`.

    It has no SONAME: once loaded by its path, it must not answer for the name
    ``libnvidia-ml.so.1`` in the rest of that process.

    Raises:
        RuntimeError: no C compiler, or the compiler failed.
    """
    absent = sorted(set(without))
    key = hashlib.sha256("\n".join([_sources_digest(), *absent]).encode()).hexdigest()[:16]
    path = BUILDS / key / LIBRARY_NAME
    if not path.exists():
        _compile(path, absent)
    return path


def _compile(path: Path, absent: list[str]) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("The tests need a C compiler (Debian and Ubuntu: apt install gcc).")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Built aside and renamed: tests of several processes may build the same one at once.
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / LIBRARY_NAME
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        renames = [f"-D{name}=absent_{name}" for name in absent]
        command = [compiler, *flags, "-fvisibility=hidden", *renames, "-o", str(built)]
        done = subprocess.run(
            [*command, str(SOURCES / "fake_nvml.c")], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"The stand-in for NVML was not built:\n{done.stderr}")
        built.replace(path)
