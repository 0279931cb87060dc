"""torch's caching allocator, as it is in this process: the only caller of torch's memory calls.

Never imports torch, and never initialises CUDA: each call below would create a context of hundreds
of MB if torch had none yet, so none is made before ``torch.cuda.is_initialized()``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from jupyter_vram.model.kernel_report import AllocatorStats, TorchState

ROCM = (
    "This kernel's torch is built for AMD GPUs (ROCm), and only NVIDIA GPUs are shown: to use one,"
    " install a CUDA build of torch in the kernel's environment."
)
FORKED = (
    "CUDA was initialised before this process was forked, so torch can't use it here: start such"
    " processes by the method `spawn`."
)
NO_UUID = (
    "This kernel's torch can't tell which GPU it uses, so its memory stands undivided: torch 2.4 or"
    " newer can."
)

_ERRORS = (RuntimeError, AssertionError, AttributeError, TypeError, ValueError, LookupError)
"""What torch raises: for a lost GPU or a pluggable allocator, or where a release moved things."""

_device_ids: dict[int, str] = {}
"""CUDA ordinal → UUID: fixed once CUDA is initialised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchReading:
    """The allocator at one moment."""

    torch_state: TorchState
    torch_version: str | None = None
    devices: tuple[AllocatorStats, ...] = ()
    """Those that torch has reserved memory of; if there is none, the calling thread's current
    one. (It is each thread's own: what the reporter's thread has says nothing of the user's.)"""
    problem: str | None = None
    """A sentence, where a figure should be here and is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedReading:
    """torch's allocated bytes (block bytes) on one device, and the allocator's own counters."""

    device_id: str
    current_bytes: int
    peak_bytes: int | None
    """The most since the process began, or since the user reset it."""
    total_bytes: int | None
    """All that was ever allocated, freed or not, or since the user reset it."""


def read_allocated() -> dict[int, AllocatedReading | None] | None:
    """CUDA ordinal → what is allocated now, for the devices that torch has ever reserved memory of.

    A device that can't be read is ``None``, as is the whole if none can; `read` says why. Takes
    some tens of microseconds a device, from any thread, and never raises.
    """
    torch, cuda = _loaded("torch"), _loaded("torch.cuda")
    builds = getattr(torch, "version", None)
    if cuda is None or not getattr(builds, "cuda", None) or not _is_initialized(cuda):
        return {}
    try:
        ordinals = range(cuda.device_count())
    except _ERRORS:
        return None
    readings = ((ordinal, _allocated(cuda, ordinal)) for ordinal in ordinals)
    return {ordinal: reading for ordinal, reading in readings if reading != _UNUSED}


def read() -> TorchReading:
    """Read now, in well under a millisecond, from any thread. Never raises."""
    torch, cuda = _loaded("torch"), _loaded("torch.cuda")
    if torch is None or cuda is None:
        return TorchReading(torch_state="not_imported")
    version = str(getattr(torch, "__version__", "")) or None
    builds = getattr(torch, "version", None)
    if getattr(builds, "hip", None):
        return TorchReading(torch_state="no_cuda_build", torch_version=version, problem=ROCM)
    if not getattr(builds, "cuda", None):
        return TorchReading(torch_state="no_cuda_build", torch_version=version)
    if not _is_initialized(cuda):
        forked = getattr(cuda, "_is_in_bad_fork", bool)()
        return TorchReading(
            torch_state="cuda_not_initialized",
            torch_version=version,
            problem=FORKED if forked else None,
        )
    devices, problem = _devices(cuda)
    return TorchReading(
        torch_state="cuda_initialized", torch_version=version, devices=devices, problem=problem
    )


def device_names() -> dict[str, str]:
    """``cuda:0`` → ``NVIDIA H200``, of all devices once CUDA is in use. Never raises."""
    cuda: Any = _loaded("torch.cuda")
    if cuda is None or not _is_initialized(cuda):
        return {}
    try:
        return {f"cuda:{n}": str(cuda.get_device_name(n)) for n in range(cuda.device_count())}
    except _ERRORS:
        return {}


def _loaded(name: str) -> ModuleType | None:
    """A module, if its import has ended: another thread may be in the middle of it."""
    module = sys.modules.get(name)
    if not isinstance(module, ModuleType):
        return None
    importing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if importing else module


def _is_initialized(cuda: Any) -> bool:
    try:
        return bool(cuda.is_initialized())
    except _ERRORS:
        return False


def _devices(cuda: Any) -> tuple[tuple[AllocatorStats, ...], str | None]:
    try:
        count, backend = cuda.device_count(), cuda.get_allocator_backend()
    except _ERRORS as error:
        return (), _unreadable(error)
    readings = [_device(cuda, ordinal, backend) for ordinal in range(count)]
    if not any(readings):
        # CUDA is there and holds a context, if not a tensor yet.
        readings = [_device(cuda, None, backend)]
    problems = [reading for reading in readings if isinstance(reading, str)]
    devices = tuple(reading for reading in readings if isinstance(reading, AllocatorStats))
    return devices, problems[0] if problems else None


def _device(cuda: Any, ordinal: int | None, backend: str) -> AllocatorStats | str | None:
    """One device (or the current one), a sentence if it can't be read, or ``None`` if unused.

    One that fails (a lost GPU) must not hide the others.
    """
    try:
        number = cuda.current_device() if ordinal is None else ordinal
        stats = cuda.memory_stats_as_nested_dict(number)
        if ordinal is not None and not _bytes(stats, "reserved_bytes", "peak"):
            return None
        device_id = _device_id(cuda, number)
        if device_id is None:
            return NO_UUID
        return _allocator_stats(device_id, number, stats, native=backend == "native")
    except _ERRORS as error:
        return _unreadable(error)


_UNUSED = AllocatedReading(device_id="", current_bytes=0, peak_bytes=0, total_bytes=0)


def _allocated(cuda: Any, ordinal: int) -> AllocatedReading | None:
    """One device, `_UNUSED`, or ``None`` if it can't be read."""
    try:
        stats = cuda.memory_stats_as_nested_dict(ordinal)
        if not _bytes(stats, "reserved_bytes", "peak"):
            return _UNUSED
        current, device_id = _bytes(stats, "allocated_bytes", "current"), _device_id(cuda, ordinal)
    except _ERRORS:
        return None
    if current is None or device_id is None:
        return None
    return AllocatedReading(
        device_id=device_id,
        current_bytes=current,
        peak_bytes=_bytes(stats, "allocated_bytes", "peak"),
        # CUDA's own asynchronous allocator leaves it at 0.
        total_bytes=_bytes(stats, "allocated_bytes", "allocated") or None,
    )


def _allocator_stats(
    device_id: str, ordinal: int, stats: Mapping[str, Any], *, native: bool
) -> AllocatorStats:
    allocated = _bytes(stats, "allocated_bytes", "current")
    reserved = _bytes(stats, "reserved_bytes", "current")
    if allocated is None or reserved is None:
        raise LookupError("it names no bytes allocated or reserved")

    # CUDA's own asynchronous allocator leaves at 0 what it doesn't know.
    def known(name: str) -> int | None:
        return _bytes(stats, name, "current") if native else None

    return AllocatorStats(
        device_id=device_id,
        ordinal=ordinal,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        active_bytes=known("active_bytes"),
        requested_bytes=known("requested_bytes"),
        inactive_split_bytes=known("inactive_split_bytes"),
        peak_allocated_bytes=_bytes(stats, "allocated_bytes", "peak"),
        peak_reserved_bytes=_bytes(stats, "reserved_bytes", "peak"),
        alloc_retries=stats.get("num_alloc_retries") if native else None,
        ooms=stats.get("num_ooms") if native else None,
    )


def _bytes(stats: Mapping[str, Any], name: str, moment: str) -> int | None:
    """One figure over all pools; ``None`` where this release of torch has no such figure."""
    try:
        return int(stats[name]["all"][moment])
    except (LookupError, TypeError):
        return None


def _device_id(cuda: Any, ordinal: int) -> str | None:
    known = _device_ids.get(ordinal)
    if known is None:
        properties = cuda.get_device_properties(ordinal)
        uuid = str(getattr(properties, "uuid", "") or "")
        if not uuid:
            return None
        known = _device_ids[ordinal] = _nvml_spelling(uuid, str(properties.name))
    return known


def _nvml_spelling(uuid: str, name: str) -> str:
    """CUDA gives a slice's UUID bare, as it does a whole GPU's; only the names tell them apart."""
    if uuid.startswith(("GPU-", "MIG-")):
        return uuid
    return f"{'MIG' if ' MIG ' in f' {name} ' else 'GPU'}-{uuid.lower()}"


def _unreadable(error: Exception) -> str:
    first_line = str(error).strip().partition("\n")[0] or type(error).__name__
    return f"torch could not tell what its allocator holds ({first_line[:200]})."
