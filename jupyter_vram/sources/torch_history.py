"""torch's history of CUDA memory: the only caller of its private functions, which differ between
releases. Never imports torch, and never initialises CUDA.

There is one history for the whole process. Its settings can't be read back, so one that is on
already is somebody else's, and is left as it is.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from jupyter_vram.errors import RecordingError
from jupyter_vram.sources.snapshot_events import Snapshot, collect, no_collection

MAX_ENTRIES = 1_000_000
"""Of the ring: ~100 bytes each, and ~2 µs to read."""


def available() -> str | None:
    """Why there is no history to be had in this process now; ``None`` if there is."""
    cuda = _cuda()
    if cuda is None:
        return "PyTorch is not imported."
    if not getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None):
        return "This build of PyTorch knows no CUDA."
    try:
        if not cuda.is_initialized():
            return "CUDA is not in use yet."
    except (RuntimeError, AssertionError, AttributeError) as error:
        return f"CUDA can't be used ({_first_line(error)})."
    # torch 2.0 has a history, and no way to tell whether somebody else keeps one.
    if not hasattr(_torch_c(), "_cuda_isHistoryEnabled") or not hasattr(_memory(), "_snapshot"):
        return "This PyTorch keeps no history of CUDA memory: 2.1 or newer does."
    backend = getattr(cuda, "get_allocator_backend", None)
    try:
        name = backend() if backend is not None else "native"
    except (RuntimeError, AttributeError) as error:
        return f"CUDA's allocator can't be asked ({_first_line(error)})."
    if name != "native":
        return f"The allocator {name} keeps no history: only PyTorch's own does."
    return None


def is_on() -> bool:
    """Whether a history is being kept. Raises `RecordingError`."""
    try:
        return bool(_torch_c()._cuda_isHistoryEnabled())  # noqa: SLF001 there is no public way
    except (RuntimeError, AttributeError) as error:
        raise RecordingError(
            f"PyTorch can't tell whether it keeps a history ({_first_line(error)})."
        ) from error


def begin(max_entries: int = MAX_ENTRIES) -> None:
    """Keep a history from now on: all events, with Python's stacks for allocations only.

    Stacks of C++ frames can take minutes to resolve, and those of frees are not needed.
    Raises `RecordingError`.
    """
    try:
        _function("_record_memory_history")(
            "all", context="alloc", stacks="python", max_entries=max_entries
        )
    except (RuntimeError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"PyTorch could not keep a history of CUDA memory ({_first_line(error)})."
        ) from error


def end() -> None:
    """Keep none any longer; what was kept is dropped. Raises `RecordingError`."""
    try:
        _function("_record_memory_history")(None)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"PyTorch could not end its history of CUDA memory ({_first_line(error)})."
        ) from error


def snapshot() -> Snapshot:
    """All that torch tells now, of all devices.

    Raises `RecordingError`, `SnapshotError`.
    """
    try:
        with no_collection():
            return collect(_function("_snapshot")(), consume=True)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"PyTorch could not tell its CUDA memory ({_first_line(error)})."
        ) from error


def blocks() -> Snapshot:
    """Segments and blocks now, without events where torch can leave them out (2.9 and newer)."""
    ask = _function("memory_snapshot")
    try:
        slim = "include_traces" in inspect.signature(ask).parameters
        return collect(ask(include_traces=False) if slim else ask())
    except (RuntimeError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"PyTorch could not tell its CUDA memory ({_first_line(error)})."
        ) from error


def _cuda() -> Any:
    return sys.modules.get("torch.cuda")


def _torch_c() -> Any:
    return getattr(sys.modules.get("torch"), "_C", None)


def _memory() -> Any:
    return sys.modules.get("torch.cuda.memory")


def _function(name: str) -> Any:
    found = getattr(_memory(), name, None)
    if found is None:
        raise RecordingError(available() or f"This PyTorch has no {name}.")
    return found


def _first_line(error: Exception) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:200]
