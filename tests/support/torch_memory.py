"""Stand-ins for the parts of torch that tell of CUDA memory, driven by the simulated allocator."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any, Literal

import pytest

from support.caching_allocator import CachingAllocator

Signature = Literal["2.1", "2.6", "2.13"]
SIGNATURES: tuple[Signature, ...] = ("2.1", "2.6", "2.13")


def _impl_21(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: object = None,
) -> None: ...


def _impl_26(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: object = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
) -> None: ...


def _impl_213(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: object = None,
    clear_history: bool = False,
    compile_context: bool = False,
    global_record_annotations: bool = False,
    skip_actions: list[str] | None = None,
) -> None: ...


IMPLEMENTATIONS = {"2.1": _impl_21, "2.6": _impl_26, "2.13": _impl_213}


class TorchMemory:
    """`torch.cuda.memory` as far as a recording calls it; `calls` lists what changed a setting."""

    def __init__(self, allocator: CachingAllocator, signature: Signature = "2.13") -> None:
        self.allocator = allocator
        self.signature = inspect.signature(IMPLEMENTATIONS[signature])
        self.slim = signature == "2.13"
        self.calls: list[dict[str, Any]] = []
        self.initialized = True
        self.fail: set[str] = set()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        torch, cuda, memory, c = (
            ModuleType(name) for name in ("torch", "torch.cuda", "torch.cuda.memory", "torch._C")
        )
        version = ModuleType("torch.version")
        vars(version).update(cuda="12.8", hip=None)
        vars(c)["_cuda_isHistoryEnabled"] = lambda: self.allocator.recording
        vars(cuda).update(
            memory=memory,
            is_initialized=lambda: self.initialized,
            get_allocator_backend=lambda: "native",
        )
        vars(torch).update(version=version, cuda=cuda, _C=c)

        def record(enabled: str | None = "all", *args: Any, **kwargs: Any) -> None:
            self._record(enabled, *args, **kwargs)

        vars(record)["__signature__"] = self.signature

        def slim(mempool_id: object = None, include_traces: bool = True) -> list[Any]:
            return self._segments()

        def plain() -> list[Any]:
            return self._segments()

        vars(memory).update(
            _record_memory_history=record,
            _snapshot=self._snapshot,
            memory_snapshot=slim if self.slim else plain,
        )
        for module in (torch, cuda, memory):
            monkeypatch.setitem(sys.modules, module.__name__, module)

    def _record(self, enabled: str | None, *args: Any, **kwargs: Any) -> None:
        bound = self.signature.bind(enabled, *args, **kwargs)
        self.calls.append(dict(bound.arguments))
        name = "begin" if enabled else "end"
        if name in self.fail:
            self.fail.remove(name)
            raise KeyboardInterrupt
        if enabled is None:
            self.allocator.stop()
        else:
            assert enabled == "all"
            self.allocator.record(bound.arguments.get("max_entries"))

    def _snapshot(self) -> dict[str, Any]:
        if "snapshot" in self.fail:
            raise RuntimeError("CUDA error: an illegal memory access\nmore lines")
        return self.allocator.snapshot()

    def _segments(self) -> list[Any]:
        segments: list[Any] = self.allocator.snapshot()["segments"]
        return segments
