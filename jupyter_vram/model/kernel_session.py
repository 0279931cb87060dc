"""A kernel as the Jupyter server knows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSession:
    """Kernel id, process and the documents that use it."""

    kernel_id: str
    pid: int | None
    """``None`` where the server does not know it (a remote or foreign kernel)."""
    name: str
    """For people: the notebook's file name, "console 1", or "kernel 1a2b3c4d (no notebook)"."""
    paths: tuple[str, ...] = ()
    """Every document open on this kernel, relative to the server's root."""
    state: str = "unknown"
    """The execution state: ``starting``, ``idle``, ``busy``, ``dead``, …"""
    language: str | None = None
    """Of the kernel spec; a kernel that is not Python never writes a report."""
    report_path: str | None = None
    """Where its report is, if it writes one (`jupyter_vram.sources.report_file`)."""
