"""The memory limit of the control group that this process is in (a container, a systemd slice).

Both versions: 2 (one tree, ``memory.max``) and 1 (a tree per controller). Limits nest: the smallest
counts, and a group may be out of memory because its parent is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_UNLIMITED_V1 = 1 << 62
"""Version 1 says "no limit" with the largest number of pages, near 2**63."""


class _Files(NamedTuple):
    limit: str
    usage: str
    reclaimable: str
    """The key in ``memory.stat``: file pages that were not used lately. The kernel counts them as
    used, and gives them back before anything fails."""


_V2 = _Files("memory.max", "memory.current", "inactive_file")
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


class CgroupMemory(NamedTuple):
    """What a process in the group may use."""

    limit_bytes: int
    """The smallest limit on the way to the root."""
    free_bytes: int
    """The smallest headroom on that way, so also what others under a shared limit leave."""


def read_cgroup_memory(
    cgroup_root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> CgroupMemory | None:
    """The limit now, or ``None`` where there is none (or no cgroups at all)."""
    found = _locate(cgroup_root, membership)
    if found is None:
        return None
    root, path, files = found
    limits: list[int] = []
    headrooms: list[int] = []
    for group in _way_up(root, path):
        limit = _number(group / files.limit)
        if limit is None or limit >= _UNLIMITED_V1:
            continue
        limits.append(limit)
        usage = _number(group / files.usage)
        if usage is not None:
            used = max(0, usage - _stat(group / "memory.stat", files.reclaimable))
            headrooms.append(max(0, limit - used))
    if not limits or not headrooms:
        return None
    smallest = min(limits)
    return CgroupMemory(smallest, min(smallest, *headrooms))


def _locate(cgroup_root: Path, membership: Path) -> tuple[Path, str, _Files] | None:
    """The mounted tree that limits memory, and this process's group in it."""
    try:
        lines = membership.read_text(errors="replace").splitlines()
    except OSError:
        return None
    unified: str | None = None
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            return cgroup_root / "memory", path, _V1
        if controllers == "":
            unified = path
    return None if unified is None else (cgroup_root, unified, _V2)


def _way_up(root: Path, path: str) -> Iterator[Path]:
    """The group's folder and its parents'.

    A container may see its own group mounted as the root, and yet be told its path on the host:
    such a path is not there, and the root stands for the group.
    """
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    for depth in range(len(parts), -1, -1):
        group = root.joinpath(*parts[:depth])
        if group.is_dir():
            yield group


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return None


def _stat(path: Path, key: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(" ")
        if name == key and value.isdigit():
            return int(value)
    return 0
