"""Values → the text and the HTML of ``%vram``: where bytes become MiB and GiB."""

from __future__ import annotations

import html
from collections.abc import Sequence
from textwrap import fill

from jupyter_vram.analysis.kernel_reasons import NO_CUDA_BUILD, NOT_IMPORTED, NOT_INITIALIZED
from jupyter_vram.model.kernel_report import AllocatorStats, KernelReport

UNKNOWN = "–"
HEADINGS = (
    "device",
    "allocated",
    "reserved, free",
    "reserved",
    "peak allocated",
    "peak reserved",
)
TITLE = "Memory of this kernel, as torch's allocator on each device tells it"
LEGEND = (
    "reserved = allocated + reserved, free; context and libraries come on top. Peaks: since the"
    " kernel started, or torch.cuda.reset_peak_memory_stats()."
)
NO_DEVICE = "torch has initialised CUDA, and names no device that it uses."

_UNITS = ("KiB", "MiB", "GiB", "TiB")
_RIGHT = 'style="text-align: right"'


def format_bytes(count: int | None) -> str:
    """With three digits or more, in the largest binary unit below: ``1.50 GiB``."""
    if count is None:
        return UNKNOWN
    if abs(count) < 1024:
        return f"{count} B"
    value = float(count)
    for unit in _UNITS:
        value /= 1024
        # What rounds to 1024 belongs to the next unit.
        if abs(value) < 1023.5 or unit == _UNITS[-1]:
            break
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in (headings, *rows)
    ]
    return "\n".join(lines)


def report_text(report: KernelReport) -> str:
    """A kernel's report for a terminal, or the plain-text output of a cell."""
    reason = _why_no_figures(report)
    parts = [fill(reason, 80)] if reason else []
    if report.devices:
        parts.append(f"{TITLE}:\n\n{table(HEADINGS, _rows(report))}\n\n{fill(LEGEND, 80)}")
    return "\n\n".join([*parts, _host_memory(report)])


def report_html(report: KernelReport) -> str:
    """The same, for a notebook: a table without scripts, ids or style sheets."""
    reason = _why_no_figures(report)
    parts = [f"<p>{html.escape(reason)}</p>"] if reason else []
    if report.devices:
        head = "".join(f'<th scope="col" {_RIGHT}>{html.escape(h)}</th>' for h in HEADINGS)
        body = "".join(_html_row(row) for row in _rows(report))
        parts.append(
            f"<table><caption>{html.escape(TITLE)}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{html.escape(LEGEND)}</p>"
        )
    parts.append(f"<p>{html.escape(_host_memory(report))}</p>")
    return "".join(parts)


def _html_row(row: Sequence[str]) -> str:
    name, *figures = map(html.escape, row)
    cells = "".join(f"<td {_RIGHT}>{figure}</td>" for figure in figures)
    return f'<tr><th scope="row">{name}</th>{cells}</tr>'


def _rows(report: KernelReport) -> list[tuple[str, ...]]:
    return [
        (
            # Not the UUID: outputs are saved and shared.
            f"cuda:{device.ordinal}",
            format_bytes(device.allocated_bytes),
            format_bytes(_reserved_free(device)),
            format_bytes(device.reserved_bytes),
            format_bytes(device.peak_allocated_bytes),
            format_bytes(device.peak_reserved_bytes),
        )
        for device in report.devices
    ]


def _reserved_free(device: AllocatorStats) -> int:
    return max(0, device.reserved_bytes - device.allocated_bytes)


def _why_no_figures(report: KernelReport) -> str | None:
    if report.problem:
        return report.problem
    if report.torch_state == "cuda_initialized":
        return None if report.devices else NO_DEVICE
    return {
        "not_imported": NOT_IMPORTED,
        "no_cuda_build": NO_CUDA_BUILD,
        "cuda_not_initialized": NOT_INITIALIZED,
    }[report.torch_state]


def _host_memory(report: KernelReport) -> str:
    return f"Host memory (resident memory of this process): {format_bytes(report.rss_bytes)}"
