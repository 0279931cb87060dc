"""The report's JSON: what is written is read; what others wrote is read as far as it goes, or
refused in a sentence, never by another error."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_vram.errors import ReportError
from jupyter_vram.model.kernel_report import (
    MAX_REPORT_BYTES,
    SCHEMA_MAJOR,
    SCHEMA_MINOR,
    TORCH_STATES,
    AllocatorStats,
    CellRun,
    KernelReport,
)

counts = st.integers(0, 2**63 - 1)
times = st.floats(0, 1e12, exclude_max=True, allow_nan=False)
texts = st.text(max_size=30)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


devices = st.builds(
    AllocatorStats,
    device_id=texts,
    **{
        field.name: counts if field.default is dataclasses.MISSING else maybe(counts)
        for field in dataclasses.fields(AllocatorStats)
        if field.name != "device_id"
    },
)
cells = st.builds(CellRun, execution_count=maybe(counts), started_at=times, ended_at=maybe(times))
reports = st.builds(
    KernelReport,
    pid=counts,
    written_at=times,
    period_s=times,
    package_version=texts,
    rss_bytes=maybe(counts),
    torch_state=st.sampled_from(TORCH_STATES),
    torch_version=maybe(texts),
    devices=st.lists(devices, max_size=3).map(tuple),
    cells=st.lists(cells, max_size=3).map(tuple),
    problem=maybe(texts),
)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)

GIB = 1 << 30
DEVICE = AllocatorStats(
    device_id="GPU-1", ordinal=0, allocated_bytes=GIB, reserved_bytes=2 * GIB, ooms=1
)
REPORT = KernelReport(
    pid=7,
    written_at=1_700_000_000.25,
    period_s=0.5,
    package_version="0.1.0",
    rss_bytes=300 << 20,
    torch_state="cuda_initialized",
    torch_version="2.13.0",
    devices=(DEVICE,),
    cells=(CellRun(execution_count=3, started_at=1_700_000_000.0),),
)


def fields(**changed: Any) -> dict[str, Any]:
    """The JSON object of `REPORT`, with some keys changed."""
    return {**json.loads(REPORT.to_json()), **changed}


def read(value: Any) -> KernelReport:
    return KernelReport.from_json(json.dumps(value).encode())


@given(reports)
@example(REPORT)
def test_what_is_written_is_read(report: KernelReport) -> None:
    assert KernelReport.from_json(report.to_json()) == report


def test_the_json_that_other_versions_read() -> None:
    """A change here is a change of the schema: see `SCHEMA_MAJOR`, `SCHEMA_MINOR`."""
    assert json.loads(REPORT.to_json()) == {
        "schema_version": [1, 0],
        "pid": 7,
        "written_at": 1_700_000_000.25,
        "period_s": 0.5,
        "package_version": "0.1.0",
        "rss_bytes": 314572800,
        "torch_state": "cuda_initialized",
        "torch_version": "2.13.0",
        "devices": [
            {
                "device_id": "GPU-1",
                "ordinal": 0,
                "allocated_bytes": 1073741824,
                "reserved_bytes": 2147483648,
                "active_bytes": None,
                "requested_bytes": None,
                "inactive_split_bytes": None,
                "peak_allocated_bytes": None,
                "peak_reserved_bytes": None,
                "alloc_retries": None,
                "ooms": 1,
            }
        ],
        "cells": [{"execution_count": 3, "started_at": 1_700_000_000.0, "ended_at": None}],
        "problem": None,
    }


def test_a_newer_minor_version_with_more_keys_is_read() -> None:
    newer = fields(schema_version=[SCHEMA_MAJOR, SCHEMA_MINOR + 3], mood="good")
    newer["devices"][0]["colour"] = {"of": ["the", "device"]}
    newer["cells"][0]["title"] = "train"
    assert read(newer) == REPORT


def test_a_version_that_knew_less_is_read() -> None:
    needed = ("schema_version", "pid", "written_at", "period_s", "package_version")
    report = read({key: value for key, value in fields().items() if key in needed})
    assert (report.torch_state, report.devices, report.cells) == ("not_imported", (), ())
    assert report.rss_bytes is None


@pytest.mark.parametrize(
    "version", [None, [], "1.0", [SCHEMA_MAJOR + 1, 0], ["1", 0], {"major": 1}, [[1], 0]]
)
def test_another_major_version_is_refused_with_what_to_do(version: Any) -> None:
    with pytest.raises(ReportError, match="install the same jupyter-vram on both sides"):
        read(fields(schema_version=version))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe\xfd",
        b"[]",
        b"null",
        b"7",
        b'"report"',
        b"[" * 100_000,
        b'{"schema_version":' * 20_000,
        b'{"schema_version":[1,0],"pid":' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_no_report_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError):
        KernelReport.from_json(data)


@pytest.mark.parametrize(
    "changed",
    [
        {"pid": -1},
        {"pid": 1.0},
        {"pid": True},
        {"pid": "7"},
        {"pid": None},
        {"pid": 2**63},
        {"written_at": float("nan")},
        {"written_at": float("inf")},
        {"written_at": -1},
        {"written_at": 10**400},
        {"written_at": True},
        {"written_at": "soon"},
        {"period_s": None},
        {"rss_bytes": -1},
        {"torch_state": "confused"},
        {"torch_state": ["not_imported"]},
        {"devices": 1},
        {"devices": None},
        {"devices": "GPU-1"},
        {"devices": {"GPU-1": {}}},
        {"devices": [None]},
        {"devices": [[]]},
        {"devices": [{}]},
        {"devices": [{"device_id": "GPU-1", "ordinal": 0, "allocated_bytes": 1}]},
        {"cells": [7]},
        {"cells": "7"},
        {"cells": [{"execution_count": 1}]},
        {"cells": [{"execution_count": 1, "started_at": 1, "ended_at": -1}]},
    ],
    ids=repr,
)
def test_a_bad_field_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ReportError, match="bad field"):
        read(fields(**changed))


@given(st.dictionaries(st.sampled_from(sorted(fields())), any_json))
def test_hostile_fields_are_read_or_refused(changed: dict[str, Any]) -> None:
    changed.pop("schema_version", None)
    try:
        report = read(fields(**changed))
    except ReportError:
        return
    # What was let in is sound: it can be written, and read again.
    assert KernelReport.from_json(report.to_json()) == report


@given(st.binary(max_size=200) | any_json.map(lambda value: json.dumps(value).encode()))
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ReportError):
        KernelReport.from_json(data)


def test_the_largest_report_of_a_kernel_fits_in_a_file() -> None:
    report = dataclasses.replace(
        REPORT,
        devices=16 * (dataclasses.replace(DEVICE, device_id="MIG-" + "0" * 60),),
        cells=32 * (CellRun(execution_count=10**9, started_at=1e9 / 3, ended_at=1e9 / 3),),
        problem="x" * 1000,
    )
    assert len(report.to_json()) < MAX_REPORT_BYTES / 10
