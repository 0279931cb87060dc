"""What becomes of a recording: its report is kept, compared, bound, shown and saved.

Whatever goes wrong here is told beneath the cell's own output, which is there already.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_vram import reports
from jupyter_vram.errors import RecordingError, VramError
from jupyter_vram.kernel.options import Options

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_vram.model.trace import Recording
    from jupyter_vram.report import Report


class Delivery:
    """Where one recording's report is to go. Made before the recording, so that what can't work
    is told before the cell has run."""

    def __init__(self, shell: InteractiveShell, options: Options) -> None:
        self._shell = shell
        self._options = options
        # The cell may change the working directory.
        self._path = Path(options.save).expanduser().absolute() if options.save else None

    def check(self) -> None:
        """Tell what is the matter with the options, if anything is. The cell runs all the same."""
        compare = self._options.compare
        if compare is not None and reports.named_report(compare) is None:
            names = ", ".join(reports.report_names()) or "none"
            tell(f"--compare: no report has the name {compare!r}. Names so far: {names}.")
        if self._path is not None:
            from jupyter_vram.report import SUFFIXES

            if not self._path.name.endswith(tuple(SUFFIXES)):
                tell(f"--save: a report's file ends with {', '.join(SUFFIXES)}.")
                self._path = None  # told once is enough
            elif not self._path.parent.is_dir():
                tell(f"--save: the folder of {self._options.save} does not exist.")

    def deliver(self, recording: Recording) -> None:
        """Make the report, and do with it what the options say."""
        try:
            report = self._report(recording)
        except VramError as error:
            tell(str(error))
            return
        self.deliver_report(report)

    def deliver_report(self, report: Report) -> None:
        """Compare it, keep it, bind it, show it, save it."""
        report = self._compared(report)
        reports.remember(report, self._options.name)
        if self._options.variable is not None:
            self._shell.user_ns[self._options.variable] = report
        show(self._shell, report, self._options)
        if self._path is not None:
            try:
                report.save(self._path)
            except VramError as error:
                tell(f"--save: the report was not written. {error}")
            except OSError as error:
                # Not the error itself, which has the whole path: outputs are saved and shared.
                why = error.strerror or type(error).__name__
                tell(f"--save: {self._options.save} was not written: {why}.")

    def _report(self, recording: Recording) -> Report:
        from jupyter_vram.report import Report

        try:
            report = Report.from_recording(recording, device=self._options.device)
        except RecordingError as error:
            if self._options.device is None:
                raise
            tell(f"--device: {error}")
            report = Report.from_recording(recording)
        return report

    def _compared(self, report: Report) -> Report:
        other = reports.named_report(self._options.compare) if self._options.compare else None
        if other is None:
            return report
        try:
            return report.compared_with(other)
        except VramError as error:
            tell(f"--compare: {error}")
            return report


def show(shell: InteractiveShell, report: Report, options: Options) -> None:
    """In the output of the cell that runs, or has just run."""
    bundle = report.mime_bundle(plot=options.plot, by=options.detail)
    shell.display_pub.publish(data=bundle)


def tell(sentence: str) -> None:
    """Beneath the cell, apart from its output."""
    print(f"%%vram: {sentence}", file=sys.stderr)  # noqa: T201 - a magic's answer
