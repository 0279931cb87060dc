"""Over real processes: a parent with children and a grandchild, some of which end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_vram.sources import processes
from jupyter_vram.sources.processes import ancestors, tree_resident_bytes

MIB = 1 << 20
CHILD_MIB = 64

# Prints its child's pid; the child holds memory; both end with their standard input.
FAMILY = f"""
import subprocess, sys
code = "import sys; held = b'x' * ({CHILD_MIB} << 20); print('ready', flush=True); sys.stdin.read()"
pipe = subprocess.PIPE
child = subprocess.Popen([sys.executable, '-c', code], stdin=pipe, stdout=pipe)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
child.stdin.close()
child.wait()
"""


class Family:
    def __init__(self, process: subprocess.Popen[str], child: int) -> None:
        self.process = process
        self.parent = process.pid
        self.child = child


@pytest.fixture
def family() -> Iterator[Family]:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY], stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdout is not None
        yield Family(process, int(process.stdout.readline()))
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def resident(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def test_ancestors_nearest_first(family: Family) -> None:
    chains = ancestors([family.child, family.parent, os.getpid()])
    assert chains[family.child][:2] == (family.parent, os.getpid())
    assert chains[family.parent][0] == os.getpid()
    assert chains[family.child][1:] == chains[family.parent]
    assert chains[os.getpid()][0] == os.getppid()
    assert family.child not in chains[family.child]
    expected = [parent.pid for parent in psutil.Process(family.child).parents()]
    assert list(chains[family.child]) == [pid for pid in expected if pid > 0]


def test_a_process_that_is_gone_has_no_ancestors() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert ancestors([gone.pid, os.getpid()])[gone.pid] == ()


@given(st.lists(st.integers(-5, 2**70), max_size=5))
def test_any_number_may_be_asked_for(pids: list[int]) -> None:
    chains = ancestors(pids)
    assert set(chains) == set(pids)
    assert all(isinstance(chain, tuple) for chain in chains.values())
    own = os.getpid()
    assert all(value is None or value >= 0 for value in tree_resident_bytes([*pids, own]).values())


def test_a_circle_of_reused_pids_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    circle = {10: 11, 11: 12, 12: 11}
    monkeypatch.setattr(processes, "_ask_linux", circle.get)
    monkeypatch.setattr(processes, "_ask_psutil", circle.get)
    assert ancestors([10]) == {10: (11, 12)}


def test_children_count_as_their_parent_s(family: Family) -> None:
    (total,) = tree_resident_bytes([family.parent]).values()
    assert total is not None
    assert total >= CHILD_MIB * MIB
    assert total == pytest.approx(resident(family.parent) + resident(family.child), rel=0.1)


def test_a_kernel_within_a_kernel_counts_once(family: Family) -> None:
    totals = tree_resident_bytes([family.parent, family.child])
    assert totals[family.child] == pytest.approx(resident(family.child), rel=0.1)
    assert totals[family.parent] == pytest.approx(resident(family.parent), rel=0.1)


def test_processes_that_end_meanwhile_are_left_out(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = psutil.Process

    def process(pid: int) -> psutil.Process:
        if pid == family.child:
            raise psutil.NoSuchProcess(pid)
        return real(pid)

    monkeypatch.setattr(psutil, "Process", process)
    assert tree_resident_bytes([family.child]) == {}
    totals = tree_resident_bytes([family.parent])
    assert totals[family.parent] == pytest.approx(real(family.parent).memory_info().rss, rel=0.1)


def test_a_process_that_may_not_be_read_is_unknown_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(pid: int) -> psutil.Process:
        raise psutil.AccessDenied(pid)

    monkeypatch.setattr(psutil, "Process", refuse)
    assert tree_resident_bytes([os.getpid()]) == {os.getpid(): None}


def test_without_procfs_psutil_is_asked(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ancestors([family.child])
    monkeypatch.setattr(processes, "_ask_linux", processes._ask_psutil)
    assert ancestors([family.child]) == expected


def test_nothing_asked_nothing_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> list[int]:
        raise AssertionError("listed every process for nothing")

    monkeypatch.setattr(psutil, "pids", fail)
    assert tree_resident_bytes([]) == {}
    assert ancestors([]) == {}
