"""The sentences about GPUs as a whole, each with its stable code."""

from __future__ import annotations

from jupyter_vram.errors import NvmlUnavailableError
from jupyter_vram.model.device import Device
from jupyter_vram.model.notice import Notice
from jupyter_vram.sources.nvml_errors import (
    GONE,
    GPU_IS_LOST,
    RESET_REQUIRED,
    NvmlRefusal,
    down_reason,
)

ASLEEP_REASON = "The GPU sleeps to save power, and is not woken up to be measured."
NO_PROCESS_BYTES_REASON = (
    "The driver does not tell how much memory each process holds (Windows, WSL 2, MIG): notebooks"
    " with jupyter-vram in their environment report it themselves."
)

_DOWN_CODES = {GPU_IS_LOST: "gpu-lost", GONE: "gpu-lost", RESET_REQUIRED: "gpu-reset-required"}

NO_DEVICE = Notice(
    "nvml-no-device",
    "warning",
    "The NVIDIA driver runs but lists no GPU. See whether nvidia-smi does; in a container, start it"
    " with GPU access (--gpus all).",
)
ASLEEP = Notice(
    "gpu-asleep",
    "info",
    f"{ASLEEP_REASON} Its figures are shown as soon as a program uses it.",
)
NO_PROCESS_BYTES = Notice("process-memory-unsupported", "info", NO_PROCESS_BYTES_REASON)

BINDING_MISSING = (
    "nvml-binding-missing",
    (
        "The Python package nvidia-ml-py is missing where Jupyter's server runs: install it there"
        " (pip install nvidia-ml-py)."
    ),
)
BINDING_FOREIGN = (
    "nvml-binding-foreign",
    (
        "The Python module pynvml is of another package than nvidia-ml-py, and lacks what is"
        " needed: pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py."
    ),
)


def unavailable(failure: NvmlUnavailableError, *, devices_known: bool) -> Notice:
    """NVML can't be used. Worse where it told of devices before."""
    if devices_known:
        return Notice(failure.code, "error", str(failure))
    absent = failure.code == "nvml-library-missing"
    return Notice(failure.code, "info" if absent else "warning", str(failure))


def down(device: Device, refusal: NvmlRefusal) -> Notice:
    """A device does not answer."""
    code = _DOWN_CODES.get(refusal.code, "gpu-error")
    return Notice(code, "error", f"{label(device)}: {down_reason(refusal)}")


def unified_memory(device: Device) -> Notice:
    """The figures are the machine's."""
    return Notice(
        "unified-memory",
        "info",
        f"{label(device)} shares the machine's memory: total, used and free are the machine's,"
        " with all that runs on its processor.",
    )


def label(device: Device) -> str:
    """A device, as a sentence names it."""
    return device.name if device.index is None else f"GPU {device.index} ({device.name})"
