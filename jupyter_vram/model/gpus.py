"""GPUs by the name on the box: how much memory each has. The table is ``data/gpus.json``."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from jupyter_vram.errors import UnknownGpuError

_MIB = 1 << 20
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:gb|gib)\Z")
_FORM = re.compile(r"(sxm\d?|pcie|hbm\w*|server|edition|workstation|max|q)\Z")
_VENDOR = re.compile(r"\b(nvidia|geforce|tesla|quadro|graphics|gpu)\b")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU."""

    name: str
    """``RTX 4090``."""
    total_bytes: int
    """What the driver reports (NVML ``total``)."""
    reserved_bytes: int | None
    """What the driver keeps for itself (NVML ``reserved``); ``None``: not known."""
    compute_capability: tuple[int, int]
    """(8, 9)."""
    multiprocessors: int
    aliases: tuple[str, ...] = ()
    """Other names: ``4090``."""


@lru_cache(1)
def _table() -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    table = json.loads((files("jupyter_vram") / "data" / "gpus.json").read_text(encoding="utf-8"))
    gpus = tuple(
        Gpu(
            name=row["name"],
            total_bytes=row["total_mib"] * _MIB,
            reserved_bytes=None,
            compute_capability=(row["compute_capability"][0], row["compute_capability"][1]),
            multiprocessors=row["multiprocessors"],
            aliases=tuple(row["aliases"]),
        )
        for row in table["gpus"]
    )
    return gpus, tuple(table["common"])


def all_gpus() -> tuple[Gpu, ...]:
    """All that are known by name."""
    return _table()[0]


def common_gpus() -> tuple[Gpu, ...]:
    """About one for each size of memory that people have, the smallest first."""
    common = _table()[1]
    found = [gpu for gpu in all_gpus() if gpu.name in common]
    return tuple(sorted(found, key=lambda gpu: gpu.total_bytes))


def gpu_named(name: str) -> Gpu:
    """The GPU of a name, as people write it: ``RTX 4090``, ``4090``, ``NVIDIA A100-SXM4-80GB``;
    or any GPU of a size: ``24GB``, which on a box means GiB.

    Raises:
        UnknownGpuError: none, or several, are called so.
    """
    wanted = name.strip().lower()
    size = _SIZE.match(wanted)
    if size is not None:
        total_bytes = int(float(size[1]) * 1024) * _MIB
        return Gpu(f"GPU of {size[1]} GB", total_bytes, None, (8, 0), 108)
    key = _key(wanted)
    exact = [gpu for gpu in all_gpus() if key in _keys(gpu)]
    if exact:
        return exact[0]
    words = key and [
        gpu for gpu in all_gpus() if all(part in _key(gpu.name) for part in _parts(wanted))
    ]
    if words and len(words) == 1:
        return words[0]
    if words:
        names = ", ".join(gpu.name for gpu in words)
        raise UnknownGpuError(f"{name!r} may be one of several GPUs: {names}. Name one of them.")
    known = {alias: gpu.name for gpu in all_gpus() for alias in _keys(gpu)}
    near = difflib.get_close_matches(key, known, 3, 0.5)
    nearest = ", ".join(dict.fromkeys(known[alias] for alias in near))
    hint = f" The nearest: {nearest}." if nearest else ""
    raise UnknownGpuError(
        f"No GPU called {name!r} is in the table.{hint} Its memory will do as well: --gpu 24GB."
    )


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", _VENDOR.sub(" ", name.lower()))


def _keys(gpu: Gpu) -> tuple[str, ...]:
    return tuple(_key(name) for name in (gpu.name, *gpu.aliases))


def _parts(name: str) -> list[str]:
    """The words that tell GPUs apart: ``a100-sxm4-80gb`` → a100, 80gb."""
    words = re.findall(r"[a-z0-9]+", _VENDOR.sub(" ", name))
    kept = [
        word
        for word in words
        if not re.match(r"(sxm\d?|pcie|hbm\w*|server|edition|workstation|max|q)\Z", word)
    ]
    return kept or [" "]
