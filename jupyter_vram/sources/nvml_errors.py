"""NVML's return codes, and what each means for the user. Knows no pynvml."""

from __future__ import annotations

from jupyter_vram.errors import NvmlUnavailableError

# nvmlReturn_t
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999

GONE = -1
"""No code of NVML's: the driver lists a GPU no more, without an error."""

DEVICE_DOWN = frozenset({GONE, GPU_IS_LOST, RESET_REQUIRED})
"""Nothing more is to be had of this device now."""

SESSION_BROKEN = frozenset(
    {UNINITIALIZED, INVALID_ARGUMENT, DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, UNKNOWN}
)
"""If no device answers anything else, NVML must be shut down and initialised again."""

NOT_TOLD = frozenset({NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND})
"""The device is well, and this figure is not for us."""

_UNAVAILABLE: dict[int, tuple[str, str]] = {
    LIBRARY_NOT_FOUND: (
        "nvml-library-missing",
        (
            "No NVIDIA driver was found (its library libnvidia-ml.so.1 is missing). With an NVIDIA"
            " GPU in this machine, install the driver; in a container, start it with GPU access"
            " (--gpus all)."
        ),
    ),
    DRIVER_NOT_LOADED: (
        "nvml-driver-not-loaded",
        (
            "The NVIDIA driver is installed but not loaded. Load it (sudo modprobe nvidia) or"
            " restart the machine; after an update of the kernel, install the driver again."
        ),
    ),
    LIB_RM_VERSION_MISMATCH: (
        "nvml-version-mismatch",
        (
            "The NVIDIA driver was updated while the old one still runs, so it can't be asked."
            " Restart the machine, or reload the nvidia kernel modules."
        ),
    ),
    NO_PERMISSION: (
        "nvml-no-permission",
        (
            "The NVIDIA driver refuses this user. Ask for read and write access to /dev/nvidia*"
            " and /dev/nvidiactl."
        ),
    ),
    FUNCTION_NOT_FOUND: (
        "nvml-too-old",
        (
            "This NVIDIA driver lacks a function without which GPUs can't be found. Install a"
            " newer driver."
        ),
    ),
    UNKNOWN: (
        "nvml-unknown-error",
        (
            "The NVIDIA driver answers every question with an unknown error. In a container that"
            " means that it lost its access to the GPUs (a systemd reload on the host does that):"
            " restart the container. Elsewhere, look for lines with NVRM in the system log (dmesg)."
        ),
    ),
}
_OTHER_UNAVAILABLE = (
    'The NVIDIA driver can\'t be asked; it says "{text}". It is tried again; if that does not'
    " help, see whether nvidia-smi works in a terminal."
)

_REASONS = {
    NOT_SUPPORTED: "The driver does not measure {what} on this device.",
    FUNCTION_NOT_FOUND: "This NVIDIA driver is too old to tell {what}: a newer one does.",
    NO_PERMISSION: "The driver tells {what} to administrators only; one of them can permit it.",
}
_OTHER_REASON = 'Asked for {what}, the driver says "{text}"; it is asked again each time.'

_DOWN_REASONS = {
    GPU_IS_LOST: (
        "The GPU is lost: it does not answer on its bus (power, heat or a fault). Programs on it"
        " have failed; restarting the machine usually brings it back."
    ),
    RESET_REQUIRED: (
        "The GPU must be reset: stop the programs that use it, then let an administrator run"
        " nvidia-smi --gpu-reset, or restart the machine."
    ),
    GONE: (
        "The driver lists this GPU no more: it was taken away, or it was lost. If nobody took it,"
        " restart the machine."
    ),
}
_OTHER_DOWN_REASON = (
    'The GPU does not answer; the driver says "{text}". It is asked again; if that lasts, see'
    " whether nvidia-smi shows it."
)


class NvmlRefusal(Exception):  # noqa: N818 - not every refusal is an error
    """One call was answered with an error: NVML's `code`, and its `text` for that code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def unavailable(refusal: NvmlRefusal) -> NvmlUnavailableError:
    """What it means that NVML as a whole can't be used."""
    code, sentence = _UNAVAILABLE.get(refusal.code, ("nvml-error", _OTHER_UNAVAILABLE))
    return NvmlUnavailableError(code, sentence.format(text=refusal.text))


def reason(what: str, refusal: NvmlRefusal) -> str:
    """Why one figure is missing. `what`: "the power drawn"."""
    if refusal.code in DEVICE_DOWN:
        return down_reason(refusal)
    sentence = _REASONS.get(refusal.code, _OTHER_REASON)
    return sentence.format(what=what, text=refusal.text)


def down_reason(refusal: NvmlRefusal) -> str:
    """Why nothing is known of a device."""
    return _DOWN_REASONS.get(refusal.code, _OTHER_DOWN_REASON).format(text=refusal.text)
