"""A recording → what a user sees of it."""

from __future__ import annotations

import numpy as np

from jupyter_vram.analysis.attribution import rows_at
from jupyter_vram.analysis.categories import categorize
from jupyter_vram.analysis.curve import curve, spans
from jupyter_vram.analysis.kept import kept_rows
from jupyter_vram.analysis.live import alive, live_bytes, peak_event, seconds
from jupyter_vram.analysis.module_tree import module_tree
from jupyter_vram.analysis.source_lines import source_lines
from jupyter_vram.errors import RecordingError
from jupyter_vram.model.report_data import Allocator, DevicePeak, ReportData
from jupyter_vram.model.trace import NONE, AllocatorFigures, Recording, Trace


def choose_device(recording: Recording, device: str | None = None) -> Trace:
    """The trace that a report is about: the GPU that held most, or the CPU where none was used.

    Raises:
        RecordingError: `device` is none that was recorded.
    """
    traces = {trace.device: trace for trace in recording.traces}
    if device is not None:
        name = (
            f"cuda:{device}"
            if device.isdecimal()
            else f"{device}:0"
            if device == "cuda"
            else device
        )
        if name not in traces:
            raise RecordingError(
                f"Nothing was recorded of the device {device!r}. There is: {', '.join(traces)}."
            )
        return traces[name]
    used = [
        trace
        for trace in recording.traces
        if trace.device != "cpu" and (len(trace.change_bytes) or trace.start_bytes)
    ]
    if used:
        return max(used, key=lambda trace: int(live_bytes(trace).max()))
    if not recording.traces:
        raise RecordingError("This recording holds no device.")
    return traces.get("cpu", recording.traces[0])


def report_data(recording: Recording, device: str | None = None) -> ReportData:
    """All figures of one device of a recording.

    Raises:
        RecordingError: `device` is none that was recorded.
    """
    trace = choose_device(recording, device)
    category = categorize(trace)
    live = live_bytes(trace)
    peak = peak_event(trace)
    blocks = trace.blocks
    at_peak = alive(trace, peak)
    at_end = alive(trace, len(trace.change_bytes))
    peak_bytes = int(live[peak + 1])
    requested = int(blocks.requested_bytes[at_peak].sum())
    by_module = rows_at(trace, category, peak, "module")
    source = recording.source
    return ReportData(
        recorder=trace.recorder,
        bytes_kind=trace.bytes_kind,
        exact=trace.exact,
        device=trace.device,
        device_name=recording.device_names.get(trace.device),
        name=recording.name,
        execution_count=source.execution_count if source is not None else None,
        duration_s=max(0.0, (trace.end_ns - trace.start_ns) / 1e9),
        start_bytes=int(live[0]),
        peak_bytes=peak_bytes,
        peak_s=round(seconds(trace, peak), 6),
        end_bytes=int(live[-1]),
        retained_bytes=int(blocks.size_bytes[at_end & (blocks.alloc_event != NONE)].sum()),
        peak_requested_bytes=None if requested == peak_bytes else requested,
        curve=curve(trace, category),
        spans=spans(trace),
        by_category=rows_at(trace, category, peak, "category"),
        by_line=rows_at(trace, category, peak, "line"),
        by_module=by_module,
        by_op=rows_at(trace, category, peak, "op"),
        source=source_lines(trace, source, peak) if source is not None else (),
        modules=module_tree(by_module, trace.modules),
        kept=kept_rows(trace, category),
        allocator=_allocator(trace.allocator),
        other_devices=tuple(
            _device_peak(other)
            for other in recording.traces
            if other is not trace and (len(other.change_bytes) or other.start_bytes)
        ),
        error=recording.error,
        truncated=trace.truncated,
        notes=(*recording.notes, *trace.notes),
    )


def _device_peak(trace: Trace) -> DevicePeak:
    live = live_bytes(trace)
    return DevicePeak(trace.device, int(live[0]), int(np.max(live)), int(live[-1]))


def _allocator(figures: AllocatorFigures | None) -> Allocator | None:
    if figures is None:
        return None
    split = figures.inactive_split_bytes
    fragmentation = (
        split / figures.reserved_bytes if split is not None and figures.reserved_bytes else None
    )
    return Allocator(
        reserved_bytes=figures.reserved_bytes,
        peak_reserved_bytes=figures.peak_reserved_bytes,
        inactive_split_bytes=split,
        fragmentation=fragmentation,
        private_pool_bytes=figures.private_pool_bytes,
        alloc_retries=figures.alloc_retries,
        ooms=figures.ooms,
    )
