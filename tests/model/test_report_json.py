"""A report survives its JSON form, and what is no report is refused by name."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_vram.errors import ReportError
from jupyter_vram.model.report_data import ReportData
from jupyter_vram.model.report_json import from_json, to_json
from reports.examples import EXAMPLES, FOLDER, gpu


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_stored_example_is_what_its_value_becomes(name: str) -> None:
    stored = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert stored == to_json(EXAMPLES[name]())


@pytest.mark.parametrize("make", EXAMPLES.values())
def test_json_loads_back_to_an_equal_report(make: Callable[[], ReportData]) -> None:
    assert from_json(json.loads(json.dumps(to_json(make())))) == make()


def test_parts_of_the_example_add_up() -> None:
    data = gpu()
    for by in ("category", "line", "module", "op"):
        assert sum(row.bytes for row in data.rows(by)) == data.peak_bytes


def test_a_later_minor_version_may_say_more() -> None:
    fields = {**to_json(gpu()), "schema_version": [1, 9], "colour": "blue"}
    assert from_json(fields) == gpu()


def changed(path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    fields = copy.deepcopy(to_json(gpu()))
    at: Any = fields
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return fields


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("schema_version",), [2, 0], "schema version"),
        (("schema_version",), None, "no report"),
        (("peak_bytes",), "many", "peak_bytes"),
        (("peak_bytes",), True, "peak_bytes"),
        (("recorder",), "guess", "recorder"),
        (("curve", "time_s", 3), None, r"time_s\[3\]"),
        (("kept", 0), [], r"kept\[0\]"),
        (("modules",), {}, "modules"),
    ],
)
def test_damage_is_named(path: tuple[str | int, ...], value: object, named: str) -> None:
    with pytest.raises(ReportError, match=named):
        from_json(changed(path, value))


def test_missing_field_is_named() -> None:
    fields = to_json(gpu())
    del fields["curve"]
    with pytest.raises(ReportError, match="curve"):
        from_json(fields)


@pytest.mark.parametrize("fields", [None, [], "x", 3, {}])
def test_no_report(fields: object) -> None:
    with pytest.raises(ReportError):
        from_json(fields)


def test_a_tree_that_nests_without_end_is_refused() -> None:
    node: dict[str, Any] = {"name": "x", "class_name": "X", "bytes": 0, "children": []}
    for _ in range(5_000):
        node = {"name": "x", "class_name": "X", "bytes": 0, "children": [node]}
    with pytest.raises(ReportError, match="nests"):
        from_json(changed(("modules",), [node]))
