"""`ReportData` as JSON, and back to an equal value.

Optional fields that are unknown are ``null``; keys that this version does not know are ignored,
another major version is refused.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jupyter_vram.errors import ReportError
from jupyter_vram.model import estimate, report_data
from jupyter_vram.model.report_data import SCHEMA_MAJOR, SCHEMA_MINOR, ReportData

MAX_DEPTH = 200
"""Of the module tree: what nests deeper is no report of ours."""


def to_json(data: ReportData) -> dict[str, Any]:
    """Plain dictionaries, lists, numbers, strings: what ``json.dumps`` takes."""
    return {"schema_version": [SCHEMA_MAJOR, SCHEMA_MINOR], **_plain(data)}


def from_json(fields: object) -> ReportData:
    """The value that `to_json` was given.

    Raises:
        ReportError: it is no report, or of another major schema version.
    """
    if not isinstance(fields, Mapping):
        raise ReportError("This is no report of jupyter_vram: it is not a JSON object.")
    version = fields.get("schema_version")
    if version is None:
        raise ReportError(
            "This is no report of jupyter_vram: it has no schema_version. Report.load reads what"
            " Report.save wrote as .json, and memory snapshots."
        )
    if not (isinstance(version, list) and version and version[0] == SCHEMA_MAJOR):
        raise ReportError(
            f"This report has schema version {version!r}, and this version of jupyter_vram reads"
            f" {SCHEMA_MAJOR}.x: use the version that wrote it."
        )
    data = _value(ReportData, fields, "report", MAX_DEPTH)
    assert isinstance(data, ReportData)
    return data


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}  # type: ignore[union-attr]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


@lru_cache
def _types(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, {**vars(report_data), **vars(estimate)})


def _value(kind: Any, value: object, where: str, depth: int) -> Any:
    """`value` as `kind`; `where` names it in an error."""
    if depth == 0:
        raise ReportError(f"This report is damaged: {where[:80]} nests too deeply.")
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (part for part in arguments if part is not type(None))
        return _value(kind, value, where, depth)
    if origin is tuple and isinstance(value, list):
        return tuple(
            _value(arguments[0], item, f"{where}[{index}]", depth - 1)
            for index, item in enumerate(value)
        )
    if origin is typing.Literal and value in arguments:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(value, Mapping):
        return _object(kind, value, where, depth)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise ReportError(f"This report is damaged: {where} is {value!r:.80}.")


def _object(kind: type, value: Mapping[str, object], where: str, depth: int) -> Any:
    hints = _types(kind)
    known: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            inner = f"{where}.{field.name}"
            known[field.name] = _value(hints[field.name], value[field.name], inner, depth - 1)
        elif field.default is dataclasses.MISSING:
            raise ReportError(f"This report is damaged: {where} has no {field.name}.")
    return kind(**known)
