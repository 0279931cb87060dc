"""``%vram``: this kernel's memory, in the output of a cell."""

from __future__ import annotations

from IPython.core.error import UsageError
from IPython.display import display

from jupyter_vram.kernel.reporter import read_report

NAME = "vram"
HELP = """\
%vram       This kernel's memory per device: allocated (torch blocks in use), reserved (held by
            torch's caching allocator) and their peaks, and the resident memory of its process.
%vram help  This text."""


def vram(line: str) -> None:
    """Show how much memory of each GPU this kernel holds: ``%vram``; ``%vram help`` says more."""
    words = line.split()
    if words == ["help"]:
        print(HELP)  # noqa: T201 - a magic's help is its output
        return
    if words:
        raise UsageError(f"%vram knows no {line.strip()!r}. There is:\n{HELP}")
    # Imported here, since every kernel that starts imports this file.
    from jupyter_vram.render.text import report_html, report_text

    report = read_report(period_s=0.0)
    display(  # type: ignore[no-untyped-call]
        {"text/plain": report_text(report), "text/html": report_html(report)}, raw=True
    )
