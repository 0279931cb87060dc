"""The report's JSON: what is written is read, and nothing that is read can do harm."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_vram.errors import ReportError
from jupyter_vram.model.kernel_report import (
    SCHEMA_MAJOR,
    SCHEMA_MINOR,
    TORCH_STATES,
    AllocatorStats,
    CellDevice,
    CellRun,
    KernelReport,
)

counts = st.integers(0, 2**63 - 1)
times = st.floats(0, 1e11, allow_nan=False)
texts = st.text(max_size=40)
allocators = st.builds(
    AllocatorStats,
    device_id=texts,
    ordinal=counts,
    allocated_bytes=counts,
    reserved_bytes=counts,
    **{
        field.name: st.none() | counts
        for field in dataclasses.fields(AllocatorStats)
        if field.default is None
    },
)
cell_devices = st.builds(
    CellDevice,
    device_id=texts,
    start_bytes=counts,
    end_bytes=counts,
    peak_bytes=counts,
    peak_exact=st.booleans(),
)
cells = st.builds(
    CellRun,
    execution_count=st.none() | counts,
    started_at=times,
    ended_at=st.none() | times,
    code_crc32=st.none() | counts,
    rss_start_bytes=st.none() | counts,
    rss_end_bytes=st.none() | counts,
    devices=st.lists(cell_devices, max_size=2).map(tuple),
)
reports = st.builds(
    KernelReport,
    pid=counts,
    written_at=times,
    period_s=times,
    package_version=texts,
    rss_bytes=st.none() | counts,
    torch_state=st.sampled_from(TORCH_STATES),
    torch_version=st.none() | texts,
    devices=st.lists(allocators, max_size=3).map(tuple),
    cells=st.lists(cells, max_size=3).map(tuple),
    problem=st.none() | texts,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)

VALID = KernelReport(
    pid=1,
    written_at=2.0,
    period_s=0.5,
    package_version="1",
    devices=(AllocatorStats(device_id="GPU-1", ordinal=0, allocated_bytes=1, reserved_bytes=2),),
    cells=(
        CellRun(
            execution_count=1,
            started_at=1.0,
            ended_at=2.0,
            code_crc32=3,
            rss_start_bytes=4,
            rss_end_bytes=5,
            devices=(
                CellDevice(
                    device_id="GPU-1", start_bytes=6, end_bytes=7, peak_bytes=8, peak_exact=True
                ),
            ),
        ),
    ),
)
FIELDS: dict[str, Any] = json.loads(VALID.to_json())


def read_or_refuse(data: bytes) -> KernelReport | None:
    try:
        return KernelReport.from_json(data)
    except ReportError:
        return None


@given(reports)
def test_what_is_written_is_read(report: KernelReport) -> None:
    assert KernelReport.from_json(report.to_json()) == report


def test_the_json_that_other_versions_read() -> None:
    """A change here is a change of the schema: raise `SCHEMA_MINOR`, or `SCHEMA_MAJOR`."""
    assert FIELDS == {
        "schema_version": [1, 1],
        "pid": 1,
        "written_at": 2.0,
        "period_s": 0.5,
        "package_version": "1",
        "rss_bytes": None,
        "torch_state": "not_imported",
        "torch_version": None,
        "devices": [
            {
                "device_id": "GPU-1",
                "ordinal": 0,
                "allocated_bytes": 1,
                "reserved_bytes": 2,
                "active_bytes": None,
                "requested_bytes": None,
                "inactive_split_bytes": None,
                "peak_allocated_bytes": None,
                "peak_reserved_bytes": None,
                "alloc_retries": None,
                "ooms": None,
            }
        ],
        "cells": [
            {
                "execution_count": 1,
                "started_at": 1.0,
                "ended_at": 2.0,
                "code_crc32": 3,
                "rss_start_bytes": 4,
                "rss_end_bytes": 5,
                "devices": [
                    {
                        "device_id": "GPU-1",
                        "start_bytes": 6,
                        "end_bytes": 7,
                        "peak_bytes": 8,
                        "peak_exact": True,
                    }
                ],
            }
        ],
        "problem": None,
    }


WRONG: dict[str, tuple[Any, ...]] = {
    "pid": (-1, 1.5, True, "1", None, 2**63),
    "written_at": (math.nan, math.inf, -1, True, "soon", None),
    "devices": (1, None, "GPU-1", {}, [None], [[]], [{}]),
    "cells": (
        "1",
        [1],
        [{}],
        [{"started_at": 1, "ended_at": -1}],
        [{"started_at": 1, "devices": [{"device_id": "GPU-1"}]}],
    ),
    "rss_bytes": (-1,),
    "torch_state": ("confused",),
}


@pytest.mark.parametrize(
    "wrong",
    [{name: value} for name, values in WRONG.items() for value in values],
    ids=repr,
)
def test_a_wrong_field_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ReportError, match="bad field"):
        KernelReport.from_json(json.dumps({**FIELDS, **wrong}).encode())


@given(st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"9" * 10_000)
def test_bytes_that_are_no_report_are_refused(data: bytes) -> None:
    assert read_or_refuse(data) is None


@given(json_values)
def test_json_that_is_no_report_is_refused(value: Any) -> None:
    assert read_or_refuse(json.dumps(value).encode()) is None


@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), json_values))
@example({"devices": ["GPU-1"]})
@example({"devices": [[]]})
@example({"devices": 5})
@example({"cells": "abc"})
@example({"written_at": 10**400})
@example({"written_at": math.nan})
@example({"pid": True})
@example({"torch_state": ["not_imported"]})
@example({"schema_version": [[SCHEMA_MAJOR]]})
@example({"package_version": {"a": [[]]}})
def test_a_report_with_wrong_fields_is_read_or_refused(wrong: dict[str, Any]) -> None:
    report = read_or_refuse(json.dumps({**FIELDS, **wrong}).encode())
    if report is not None:  # what is read is whole, whatever was written
        assert KernelReport.from_json(report.to_json()) == report


def test_a_field_nested_beyond_reason_is_refused_or_read() -> None:
    deep = b"[" * 900 + b"]" * 900
    head = json.dumps({k: v for k, v in FIELDS.items() if k != "package_version"})[:-1].encode()
    read_or_refuse(head + b', "package_version": ' + deep + b"}")


def test_a_newer_minor_version_is_read_and_its_fields_ignored() -> None:
    newer = {**FIELDS, "schema_version": [SCHEMA_MAJOR, SCHEMA_MINOR + 7], "moons": [1]}
    newer["devices"] = [{**FIELDS["devices"][0], "tides": "high"}]
    assert KernelReport.from_json(json.dumps(newer).encode()) == VALID


def test_an_older_minor_version_lacks_fields() -> None:
    oldest = ("schema_version", "pid", "written_at", "period_s", "package_version")
    report = KernelReport.from_json(json.dumps({name: FIELDS[name] for name in oldest}).encode())
    assert (report.rss_bytes, report.devices, report.cells) == (None, (), ())


def test_runs_of_a_kernel_that_does_not_tell_their_memory() -> None:
    fields = {**FIELDS, "schema_version": [1, 0], "cells": [{"started_at": 1.0, "ended_at": 2.0}]}
    (run,) = KernelReport.from_json(json.dumps(fields).encode()).cells
    assert (run.code_crc32, run.rss_change_bytes, run.devices) == (None, None, ())


def test_the_change_of_resident_memory_is_known_once_the_run_has_ended() -> None:
    run = VALID.cells[0]
    assert run.rss_change_bytes == 1
    assert dataclasses.replace(run, rss_end_bytes=None).rss_change_bytes is None


@pytest.mark.parametrize("version", [[SCHEMA_MAJOR + 1, 0], [0, 9], [], None, 1, "1.0"])
def test_another_major_version_is_refused_and_says_what_to_do(version: object) -> None:
    data = json.dumps({**FIELDS, "schema_version": version}).encode()
    with pytest.raises(ReportError, match="same jupyter-vram on both sides"):
        KernelReport.from_json(data)


@pytest.mark.parametrize("name", ["pid", "written_at", "period_s", "package_version"])
def test_a_report_without_its_core_is_refused(name: str) -> None:
    data = json.dumps({key: value for key, value in FIELDS.items() if key != name}).encode()
    with pytest.raises(ReportError, match=name):
        KernelReport.from_json(data)
