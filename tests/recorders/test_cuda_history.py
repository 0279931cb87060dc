"""A recording by the CUDA allocator's history: true, and gone without a trace on every way out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_vram.errors import RecordingError
from jupyter_vram.model.trace import Line, Trace
from jupyter_vram.recorders import cuda_history
from jupyter_vram.recorders.cuda_history import CudaHistory
from support import allocation_programs
from support.allocation_programs import STACKS, run
from support.allocator_rules import MIB
from support.caching_allocator import CachingAllocator, Version
from support.torch_memory import SIGNATURES, Signature, TorchMemory


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert not cuda_history._ours.locked()


class Now(CachingAllocator):
    """Notes each event at the time it happens."""

    @property
    def time_us(self) -> int:
        return time.time_ns() // 1000

    @time_us.setter
    def time_us(self, _: int) -> None: ...


def installed(
    monkeypatch: pytest.MonkeyPatch, signature: Signature = "2.13", **options: Any
) -> tuple[CachingAllocator, TorchMemory]:
    allocator = Now(**options)
    torch = TorchMemory(allocator, signature)
    torch.install(monkeypatch)
    return allocator, torch


def peak(trace: Trace) -> int:
    return trace.start_bytes + max(0, int(np.cumsum(trace.change_bytes).max(initial=0)))


@given(
    before=allocation_programs.programs,
    program=allocation_programs.programs,
    signature=st.sampled_from(SIGNATURES),
    version=allocation_programs.versions,
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_peaks_of_both_devices_are_the_allocators_own(
    monkeypatch: pytest.MonkeyPatch,
    before: list[Any],
    program: list[Any],
    signature: Signature,
    version: Version,
) -> None:
    allocator, torch = installed(monkeypatch, signature, devices=2, version=version)
    run(allocator, before)
    history = CudaHistory()
    history.start()
    run(allocator, program)
    answers = [allocator.answers(device) for device in (0, 1)]
    traces = {trace.device: trace for trace in history.stop()}
    assert not allocator.recording
    assert [call["enabled"] for call in torch.calls] == ["all", None]
    for device, answer in enumerate(answers):
        trace = traces.get(f"cuda:{device}")
        if trace is None:
            assert not answer.peak
            continue
        assert trace.recorder == "cuda"
        assert trace.bytes_kind == "block"
        assert (trace.start_bytes, peak(trace)) == (answer.start, answer.peak)
        assert not trace.truncated


def test_a_history_that_is_on_is_neither_changed_nor_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    allocator, torch = installed(monkeypatch)
    allocator.record()
    early = allocator.malloc(4 * MIB)
    allocator.free(allocator.malloc(30 * MIB))
    time.sleep(0.002)
    history = CudaHistory()
    history.start()
    time.sleep(0.002)
    allocator.malloc(2 * MIB)
    allocator.free(early)
    (trace,) = history.stop()
    assert torch.calls == []
    assert allocator.recording
    assert trace.start_bytes == 4 * MIB
    assert trace.change_bytes.tolist() == [2 * MIB, -4 * MIB]
    assert not trace.truncated


def test_a_foreign_ring_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, _ = installed(monkeypatch)
    allocator.record(4)
    history = CudaHistory()
    history.start()
    for _ in range(5):
        allocator.malloc(100)
    (trace,) = history.stop()
    assert trace.truncated
    assert trace.start_bytes + int(trace.change_bytes.sum()) == 5 * 512


def test_our_ring_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, _ = installed(monkeypatch)
    history = CudaHistory(max_entries=4)
    history.start()
    for _ in range(5):
        allocator.malloc(100)
    (trace,) = history.stop()
    assert trace.truncated
    assert peak(trace) == 5 * 512


def test_one_within_another(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, torch = installed(monkeypatch)
    outer, inner = CudaHistory(), CudaHistory()
    outer.start()
    allocator.malloc(3 * MIB)
    time.sleep(0.002)
    inner.start()
    time.sleep(0.002)
    allocator.malloc(2 * MIB)
    (short,) = inner.stop()
    assert allocator.recording
    allocator.malloc(100)
    (long,) = outer.stop()
    assert (short.start_bytes, short.change_bytes.tolist()) == (3 * MIB, [2 * MIB])
    assert long.change_bytes.tolist() == [3 * MIB, 2 * MIB, 512]
    assert len(torch.calls) == 2


@pytest.mark.parametrize("at", ["begin", "end", "snapshot"])
def test_interrupted_anywhere_it_leaves_nothing(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, torch = installed(monkeypatch)
    torch.fail.add(at)
    history = CudaHistory()

    def record() -> None:
        history.start()
        history.stop()

    with pytest.raises((KeyboardInterrupt, RecordingError)):
        record()
    assert not allocator.recording
    torch.fail.clear()
    history.start()
    history.stop()


def test_as_a_context_manager_it_ends_on_every_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, _ = installed(monkeypatch)

    def interrupted() -> None:
        with CudaHistory():
            assert allocator.recording
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not allocator.recording
    with CudaHistory() as history:
        allocator.malloc(100)
        (trace,) = history.stop()
    assert trace.change_bytes.tolist() == [512]


def test_code_that_ends_the_history_itself_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, _ = installed(monkeypatch)
    history = CudaHistory()
    history.start()
    allocator.malloc(100)
    allocator.stop()
    (trace,) = history.stop()
    assert trace.start_bytes == 512
    assert any("ended torch's memory history itself" in note for note in trace.notes)


def test_out_of_order_calls_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, torch = installed(monkeypatch)
    history = CudaHistory()
    with pytest.raises(RecordingError, match="does not run"):
        history.stop()
    history.start()
    with pytest.raises(RecordingError, match="runs already"):
        history.start()
    history.close()
    history.close()
    torch.initialized = False
    with pytest.raises(RecordingError, match="not in use yet"):
        history.start()


def test_lines_are_as_the_user_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator, _ = installed(monkeypatch)
    history = CudaHistory()
    history.start()
    allocator.malloc(100, frames=STACKS[0])
    (trace,) = history.stop(
        labels={"/tmp/ipykernel_7/1234.py": ""},
        line_offsets={"/tmp/ipykernel_7/1234.py": 1},
    )
    (context,) = (trace.contexts[row] for row in trace.blocks.context)
    assert context.lines == (Line("", 3), Line("train.py", 1))
