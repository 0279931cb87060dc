"""Why a kernel's own figures are missing, and what the user can do: one sentence each."""

from __future__ import annotations

from jupyter_vram.model.kernel_report import KernelReport
from jupyter_vram.model.kernel_session import KernelSession
from jupyter_vram.model.snapshot import ReportReading

STARTING = "The kernel is starting: its first report is awaited."
DEAD = "The kernel has died: restart it to go on."
REMOTE = (
    "This kernel's process is not on this machine or not known to this server, so its memory"
    " can't be read from here."
)
NO_PACKAGE = (
    "This kernel does not report its allocator, so its memory stands undivided: run"
    " `pip install jupyter-vram` in the kernel's environment and restart it (if it is installed,"
    " look whether JUPYTER_VRAM_KERNEL=0 turns it off)."
)
STALE = (
    "The kernel has not reported for a while (a long call that does not give way to other"
    " threads, or its reporter has stopped): these are its last figures."
)
NOT_IMPORTED = (
    "torch is not imported in this kernel, so there is no allocator to report: what its process"
    " holds stands undivided."
)
NO_CUDA_BUILD = (
    "This kernel's torch is a build without CUDA, so it holds no GPU memory: to use an NVIDIA"
    " GPU, install a CUDA build of torch in the kernel's environment."
)
NOT_INITIALIZED = (
    "torch has not used CUDA in this kernel yet: its figures come with the first tensor on a GPU."
)


def not_python(language: str) -> str:
    """For a kernel of another language than Python."""
    return (
        f"This is a kernel for {language}: only Python kernels report their allocator, so what"
        " its process holds stands undivided."
    )


def kernel_reason(
    session: KernelSession,
    reading: ReportReading | None,
    report: KernelReport | None,
    stale: bool,
) -> str | None:
    """The sentence for one kernel; ``None`` if its own figures are there and fresh.

    `report` is the one in `reading`, or ``None`` if that is not to be believed any more.
    """
    if session.state == "dead":
        return DEAD
    if report is None:
        return _why_no_report(session, reading)
    if stale:
        return STALE
    if report.problem:
        return report.problem
    return {
        "not_imported": NOT_IMPORTED,
        "no_cuda_build": NO_CUDA_BUILD,
        "cuda_not_initialized": NOT_INITIALIZED,
        "cuda_initialized": None,
    }[report.torch_state]


def _why_no_report(session: KernelSession, reading: ReportReading | None) -> str:
    if reading is not None and reading.problem:
        return reading.problem
    if session.language is not None and session.language.lower() != "python":
        return not_python(session.language)
    if session.state in ("starting", "restarting", "autorestarting"):
        return STARTING
    if session.pid is None:
        return REMOTE
    return NO_PACKAGE
