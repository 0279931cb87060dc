"""Every error this package raises on purpose.

    VramError
    ├── NvmlUnavailableError the NVIDIA library or driver can't be used now
    ├── ReportError          a kernel's report file is unreadable or of another kind
    ├── SnapshotError        a file is no memory snapshot of torch, or a damaged one
    ├── HistoryError         a question the history can't answer
    ├── RecordingError       a recording can't begin, or its report can't do what is asked
    │   └── TorchMissingError  PyTorch is not installed where the cell runs
    ├── DryRunError          a dry run can't be made, or its code failed
    │   └── UnknownGpuError    no GPU of that name is in the table
    ├── LiveError            a live view that can't be made
    ├── PlotlyMissingError   report.figure() without plotly (render.report_figure)
    └── BadRequestError      a request to the server that makes no sense (server.parameters)

Each message is a sentence for a user: what is wrong, then what to do.
"""

from __future__ import annotations

from typing import Any


class VramError(Exception):
    """Base of all errors of jupyter_vram."""


class NvmlUnavailableError(VramError):
    """NVML can't be used at present; `code` names why and the message says what to do.

    `code` is a notice code (`jupyter_vram.model.notice`).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ReportError(VramError):
    """A kernel's report could not be read: not JSON, not a report, or of a newer major schema."""


class SnapshotError(VramError):
    """A memory snapshot could not be read: not one, damaged, or made to do harm."""


class HistoryError(VramError):
    """The history was asked for a device or span that it does not hold."""


class RecordingError(VramError):
    """A recording can't begin now, or its report can't do what is asked of it."""


class TorchMissingError(RecordingError):
    """PyTorch is not installed in the environment of this kernel."""


class DryRunError(VramError):
    """A dry run can't be made, or what it ran failed: nothing of the user's has changed."""

    failure: Any = None
    """How the user's code failed (`jupyter_vram.dry_run.outcome.Failure`), if it did."""
    report: Any = None
    """The `Report` of what ran until it failed, if anything did."""


class UnknownGpuError(DryRunError):
    """No GPU of the name that was asked for is in the table."""


class LiveError(VramError):
    """A live view was asked for with figures that make no sense."""
