"""Names the machine that figures were measured on."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

import jupyter_vram

PACKAGES = (
    "jupyter_vram",
    "jupyter_server",
    "jupyterlab",
    "tornado",
    "ipykernel",
    "nvidia-ml-py",
    "torch",
    "playwright",
)


def describe(gpus: Iterable[str] = ()) -> dict[str, Any]:
    """The machine, and what runs on it."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(psutil.Process().cpu_affinity())
        if hasattr(psutil.Process, "cpu_affinity")
        else os.cpu_count(),
        "ram_bytes": psutil.virtual_memory().total,
        "gpus": list(gpus),
        "os": os_name(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := version(name)) is not None},
    }


def now() -> str:
    """The date and time, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def load_average() -> float:
    """How many processes wanted to run over the last minute, on average."""
    return psutil.getloadavg()[0]


def slug(hardware: dict[str, Any]) -> str:
    """A file name for the machine: "amd-epyc-7b13-2-cores-8-gib"."""
    named = hardware["gpus"][:1] or [hardware["cpu"]]
    words = f"{named[0]} {hardware['cores']} cores {round(hardware['ram_bytes'] / 2**30)} gib"
    words = re.sub(r"\((r|tm)\)|@|\bcpu\b|\bprocessor\b", " ", words.lower())
    return "-".join(re.findall(r"[a-z0-9.]+", words))


def version(package: str) -> str | None:
    if package == "jupyter_vram":  # also where it is not installed, but only on the path
        return jupyter_vram.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.M)
    return found[1].strip() if found else platform.machine()


def os_name() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, {platform.system()} {platform.release().split('-')[0]}"
