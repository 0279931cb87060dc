"""The published schema of a report says what `ReportData` is, no more and no less."""

from __future__ import annotations

import copy
import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from jupyter_vram.model import estimate, report_data
from jupyter_vram.model.report_data import ReportData
from reports.examples import EXAMPLES, FOLDER
from reports.schema import ValidationError, check, schema

NAMES = {
    "ReportData": "report",
    "ModuleNode": "module",
    "SourceLine": "source_line",
    "DevicePeak": "device_peak",
    "DevicePart": "device_part",
    "GpuFit": "gpu_fit",
}


def definition_of(kind: type) -> Any:
    return schema()["$defs"][NAMES.get(kind.__name__, kind.__name__.lower())]


def parts(kind: Any) -> Iterator[type]:
    """The dataclasses that a type is made of."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        yield kind
    for inner in typing.get_args(kind):
        yield from parts(inner)


def all_kinds() -> list[type]:
    found: list[type] = [ReportData]
    for kind in found:
        hints = typing.get_type_hints(kind, {**vars(estimate), **vars(report_data)})
        found += [part for hint in hints.values() for part in parts(hint) if part not in found]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_example_is_as_the_schema_says(name: str) -> None:
    check(json.loads((FOLDER / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_fields_are_those_of_the_value(kind: type) -> None:
    definition = definition_of(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    properties = set(definition["properties"]) - {"schema_version"}
    assert properties == set(fields)
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    assert set(definition["required"]) - {"schema_version"} == required


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_what_may_be_unknown_may_be_null(kind: type) -> None:
    properties = definition_of(kind)["properties"]
    hints = typing.get_type_hints(kind, {**vars(estimate), **vars(report_data)})
    for name, hint in hints.items():
        is_optional = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
        assert _takes_null(properties[name]) == is_optional, name


def _takes_null(definition: Any) -> bool:
    return (
        "null" in definition.get("type", ())
        or None in definition.get("enum", ())
        or {"type": "null"} in definition.get("anyOf", ())
    )


@pytest.mark.parametrize("name", ["recorder", "bytes_kind", "detail"])
def test_choices_are_those_of_the_type(name: str) -> None:
    hint = typing.get_type_hints(ReportData, vars(report_data))[name]
    choices = {
        value
        for part in (hint, *typing.get_args(hint))
        if typing.get_origin(part) is typing.Literal
        for value in typing.get_args(part)
    }
    listed = definition_of(ReportData)["properties"][name]["enum"]
    assert {value for value in listed if value is not None} == choices


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema_version",), [2, 0]),
        (("schema_version",), 1),
        (("peak_bytes",), None),
        (("peak_bytes",), 1.5),
        (("start_bytes",), -1),
        (("recorder",), "guess"),
        (("detail",), "colour"),
        (("by_line", 0, "count"), "many"),
        (("curve", "series", 0, "bytes", 3), -1),
        (("modules", 0, "children", 0, "repeats"), 0),
        (("kept", 0, "surprise"), 1),
        (("allocator", "fragmentation"), 2),
    ],
)
def test_the_schema_refuses_what_is_no_report(path: tuple[str | int, ...], value: object) -> None:
    report = json.loads((FOLDER / "gpu.json").read_text(encoding="utf-8"))
    check(report)
    place = copy.deepcopy(report)
    changed = place
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValidationError):
        check(changed)
