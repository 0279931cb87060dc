"""The JSON of the contract, held against the examples that the browser's side is tested with."""

from __future__ import annotations

import dataclasses
import json

import pytest

from jupyter_vram.model.wire import (
    DEVICE_COLUMNS,
    SECTIONS,
    TickBuilder,
    snapshot_object,
)
from wire.examples import FOLDER, GPU_0, later, messages, snapshot
from wire.schema import ValidationError, check

FILES = sorted(path.name for path in FOLDER.glob("*.json"))


SCHEMAS = {
    "snapshot.json": "snapshot",
    "snapshot_host.json": "snapshot",
    "history.json": "history",
    "stream_snapshot.json": "stream_snapshot",
    "tick.json": "tick",
    "tick_changed.json": "tick",
}


@pytest.mark.parametrize("name", FILES)
def test_example_is_as_the_schema_says(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    check(stored, SCHEMAS[name])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("devices", 0, "used_bytes"), "many"),
        (("devices", 0, "used_bytes"), -1),
        (("devices", 0, "kind"), "rocm"),
        (("kernels", 0, "devices", 0, "parts", "cached"), 1),
        (("notices", 0, "surprise"), 1),
        (("schema_version",), 2),
    ],
)
def test_the_schema_refuses_what_the_server_never_sends(
    path: tuple[str | int, ...], value: object
) -> None:
    message = json.loads((FOLDER / "snapshot.json").read_text(encoding="utf-8"))
    place = message
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        check(message, "snapshot")


def test_every_example_has_a_value_behind_it() -> None:
    assert sorted(messages()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_example_is_what_the_server_sends(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert json.loads(json.dumps(messages()[name])) == stored


@pytest.mark.parametrize("name", ["snapshot.json", "snapshot_host.json"])
def test_the_examples_parts_add_up_to_the_device(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    for device in stored["devices"]:
        parts = sum(
            sum(share["parts"].values())
            for kernel in stored["kernels"]
            for share in kernel["devices"]
            if share["id"] == device["id"]
        )
        rest = sum(
            device[name] or 0
            for name in (
                "other_bytes",
                "unattributed_bytes",
                "driver_reserved_bytes",
                "free_bytes",
            )
        )
        assert parts + rest == device["total_bytes"]


def test_a_tick_of_figures_brings_no_section_and_all_rows() -> None:
    builder = TickBuilder()
    first = builder.build(snapshot())
    tick = builder.build(later(figures_only=True))
    message = tick.message(first.revisions)
    assert "changed" not in message
    assert message["devices"] == [
        [device[name] for name in DEVICE_COLUMNS] for device in tick.snapshot["devices"]
    ]
    assert len(message["kernels"]) == 2


def test_a_tick_brings_only_the_sections_that_changed() -> None:
    builder = TickBuilder()
    first = builder.build(snapshot())
    message = builder.build(later(figures_only=False)).message(first.revisions)
    assert list(message["changed"]) == ["kernels"]
    assert [kernel["name"] for kernel in message["changed"]["kernels"]][-1] == "console 1"


def test_a_client_that_missed_a_change_gets_it_with_a_later_tick() -> None:
    builder = TickBuilder()
    first = builder.build(snapshot())
    builder.build(later(figures_only=False))
    third = builder.build(dataclasses.replace(later(figures_only=False), time=1.0))
    assert list(third.message(first.revisions)["changed"]) == ["kernels"]
    assert set(third.message(None)["changed"]) == set(SECTIONS)


def test_a_report_from_the_future_has_no_negative_age() -> None:
    kernel = dataclasses.replace(snapshot().kernels[0], report_time=snapshot().time + 60)
    view = dataclasses.replace(snapshot(), kernels=(kernel,))
    assert snapshot_object(view)["kernels"][0]["report_age_s"] == 0.0


def test_an_ended_processs_bytes_do_not_resend_the_device() -> None:
    builder = TickBuilder()
    first = builder.build(snapshot())
    gpu = snapshot().devices[0]
    process = dataclasses.replace(gpu.processes[0], used_bytes=1)
    moved = dataclasses.replace(gpu, processes=(process, *gpu.processes[1:]))
    same_pids = builder.build(
        dataclasses.replace(snapshot(), devices=(moved, *snapshot().devices[1:]))
    )
    assert "changed" not in same_pids.message(first.revisions)
    gone = dataclasses.replace(gpu, processes=gpu.processes[1:])
    tick = builder.build(dataclasses.replace(snapshot(), devices=(gone, *snapshot().devices[1:])))
    assert tick.message(first.revisions)["changed"]["devices"][0]["id"] == GPU_0
