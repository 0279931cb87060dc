"""torch's private history functions, by every release's signature, and the reasons against."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

import pytest

from jupyter_vram.errors import RecordingError
from jupyter_vram.sources import torch_history
from support.caching_allocator import CachingAllocator
from support.torch_memory import IMPLEMENTATIONS, SIGNATURES, Signature, TorchMemory


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_history_begins_and_ends(signature: Signature, monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = CachingAllocator()
    torch = TorchMemory(allocator, signature)
    torch.install(monkeypatch)
    assert torch_history.available() is None
    assert not torch_history.is_on()
    torch_history.begin(50)
    assert torch_history.is_on()
    allocator.malloc(100)
    (events,) = torch_history.snapshot().traces
    assert len(events) == 2
    assert len(torch_history.blocks().blocks.size_bytes) == 2
    torch_history.end()
    assert not torch_history.is_on()
    first, last = torch.calls
    assert first == {
        "enabled": "all", "context": "alloc", "stacks": "python", "max_entries": 50
    }  # fmt: skip
    assert last == {"enabled": None}


def test_the_newest_signature_is_that_of_the_torch_at_hand() -> None:
    from torch.cuda import memory

    real = inspect.signature(memory._record_memory_history)
    assert list(real.parameters) == list(inspect.signature(IMPLEMENTATIONS["2.13"]).parameters)
    assert "include_traces" in inspect.signature(memory.memory_snapshot).parameters


def test_the_torch_at_hand_has_no_cuda_and_says_so() -> None:
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this torch is a CUDA build")
    assert torch_history.available() == "This build of PyTorch knows no CUDA."


def test_reasons_against(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = TorchMemory(CachingAllocator())
    torch.install(monkeypatch)
    torch.initialized = False
    assert torch_history.available() == "CUDA is not in use yet."
    torch.initialized = True
    vars(sys.modules["torch.cuda"])["get_allocator_backend"] = lambda: "cudaMallocAsync"
    assert "cudaMallocAsync keeps no history" in str(torch_history.available())
    vars(sys.modules["torch"])["_C"] = ModuleType("torch._C")
    assert "2.1 or newer" in str(torch_history.available())
    with pytest.raises(RecordingError):
        torch_history.is_on()
    monkeypatch.delitem(sys.modules, "torch.cuda")
    assert torch_history.available() == "PyTorch is not imported."
    monkeypatch.delitem(sys.modules, "torch.cuda.memory")
    with pytest.raises(RecordingError, match="not imported"):
        torch_history.begin()


def test_what_cuda_says_is_passed_on_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = TorchMemory(CachingAllocator())
    torch.install(monkeypatch)
    torch.fail.add("snapshot")
    with pytest.raises(RecordingError, match=r"illegal memory access\)\.$"):
        torch_history.snapshot()
