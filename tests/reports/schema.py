"""The report's JSON Schema, made strict: we write no key that is not in it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

ValidationError = jsonschema.ValidationError
SCHEMA = Path(__file__).parents[2] / "docs" / "api" / "report-v1.schema.json"


def schema() -> Any:
    """As it is published."""
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


@cache
def _validator() -> Any:
    strict = schema()
    jsonschema.Draft202012Validator.check_schema(strict)
    for definition in strict["$defs"].values():
        definition["additionalProperties"] = False
    return jsonschema.Draft202012Validator(strict)


def check(report: Any) -> None:
    """Raise `jsonschema.ValidationError` unless `report` is a report's JSON."""
    _validator().validate(report)
