"""Limits of control groups, of both versions, as the files look in the wild."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_vram.sources.cgroup import CgroupMemory, read_cgroup_memory

GIB = 1 << 30
UNLIMITED_V1 = 9223372036854771712


class Tree:
    """A mounted cgroup file system, and the file that tells a process's place in it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "cgroup"
        self.membership = folder / "self-cgroup"
        self.root.mkdir()

    def v2(self, path: str, limit: int | str | None, used: int = 0, inactive: int = 0) -> None:
        self._write(path, {"memory.current": used}, f"anon 5\nfile 9\ninactive_file {inactive}\n")
        if limit is not None:
            (self.root / path / "memory.max").write_text(f"{limit}\n")

    def v1(self, path: str, limit: int, used: int = 0, inactive: int = 0) -> None:
        files = {"memory.limit_in_bytes": limit, "memory.usage_in_bytes": used}
        statistics = f"cache 5\ninactive_file 1\ntotal_inactive_file {inactive}\n"
        self._write(f"memory/{path}", files, statistics)

    def _write(self, path: str, files: dict[str, int], statistics: str) -> None:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (folder / name).write_text(f"{value}\n")
        (folder / "memory.stat").write_text(statistics)

    def member(self, *lines: str) -> None:
        self.membership.write_text("".join(f"{line}\n" for line in lines))

    def read(self) -> CgroupMemory | None:
        return read_cgroup_memory(self.root, self.membership)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_container_of_version_2(tree: Tree) -> None:
    tree.member("0::/")
    tree.v2("", 8 * GIB, used=5 * GIB, inactive=2 * GIB)
    assert tree.read() == CgroupMemory(8 * GIB, 5 * GIB)


def test_the_host_s_root_has_no_limit(tree: Tree) -> None:
    tree.member("0::/")
    tree.v2("", None, used=5 * GIB)
    assert tree.read() is None


def test_a_group_without_a_limit(tree: Tree) -> None:
    tree.member("0::/user.slice/app.scope")
    tree.v2("user.slice/app.scope", "max", used=GIB)
    tree.v2("user.slice", "max", used=GIB)
    assert tree.read() is None


def test_the_smallest_limit_on_the_way_up_counts(tree: Tree) -> None:
    tree.member("0::/kubepods/pod1/container")
    tree.v2("kubepods/pod1/container", "max", used=GIB)
    tree.v2("kubepods/pod1", 4 * GIB, used=2 * GIB)
    tree.v2("kubepods", 64 * GIB, used=10 * GIB)
    assert tree.read() == CgroupMemory(4 * GIB, 2 * GIB)


def test_a_parent_that_others_filled_leaves_less(tree: Tree) -> None:
    tree.member("0::/kubepods/pod1")
    tree.v2("kubepods/pod1", 4 * GIB, used=GIB)
    tree.v2("kubepods", 64 * GIB, used=63 * GIB)
    assert tree.read() == CgroupMemory(4 * GIB, GIB)


def test_more_used_than_allowed_is_nothing_free(tree: Tree) -> None:
    tree.member("0::/a")
    tree.v2("a", GIB, used=2 * GIB)
    assert tree.read() == CgroupMemory(GIB, 0)


def test_a_path_of_the_host_means_the_root_that_is_seen(tree: Tree) -> None:
    tree.member("0::/../../docker/0123")
    tree.v2("", 2 * GIB, used=GIB)
    assert tree.read() == CgroupMemory(2 * GIB, GIB)


def test_version_1_beside_an_empty_version_2(tree: Tree) -> None:
    tree.member("4:memory:/docker/0123", "1:name=systemd:/", "0::/")
    tree.v1("docker/0123", 3 * GIB, used=2 * GIB, inactive=GIB)
    tree.v1("docker", UNLIMITED_V1, used=9 * GIB)
    tree.v1("", UNLIMITED_V1, used=20 * GIB)
    assert tree.read() == CgroupMemory(3 * GIB, 2 * GIB)


def test_version_1_with_several_controllers_in_a_mount(tree: Tree) -> None:
    tree.member("4:cpu,memory:/a")
    tree.v1("a", GIB)
    assert tree.read() == CgroupMemory(GIB, GIB)


def test_version_1_without_a_limit(tree: Tree) -> None:
    tree.member("4:memory:/a")
    tree.v1("a", UNLIMITED_V1)
    assert tree.read() is None


@pytest.mark.parametrize("text", ["", "nonsense\n", "4:cpu:/\n", "0::\n"])
def test_what_is_not_understood_is_no_limit(tree: Tree, text: str) -> None:
    tree.membership.write_text(text)
    assert tree.read() is None


def test_no_cgroups_at_all(tmp_path: Path) -> None:
    assert read_cgroup_memory(tmp_path / "none", tmp_path / "none") is None


def test_a_limit_whose_use_is_not_told(tree: Tree) -> None:
    tree.member("0::/a")
    tree.v2("a", GIB)
    (tree.root / "a/memory.current").unlink()
    assert tree.read() is None


def test_this_process_can_be_read() -> None:
    memory = read_cgroup_memory()
    assert memory is None or 0 <= memory.free_bytes <= memory.limit_bytes
