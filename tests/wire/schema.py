"""The contract's JSON Schema, made strict: the server sends no key that is not in it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

ValidationError = jsonschema.ValidationError
SCHEMA = Path(__file__).parents[2] / "docs" / "api" / "v1.schema.json"


@cache
def _validator(name: str) -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    _close(schema)
    return jsonschema.Draft202012Validator(
        {"$schema": schema["$schema"], "$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
    )


def _close(schema: Any) -> None:
    """Forbid keys that the schema does not name (it allows them, for versions to come)."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for inner in schema.values():
            _close(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _close(inner)


def check(message: Any, name: str) -> None:
    """Raise `jsonschema.ValidationError` unless `message` is a `name` of the contract."""
    _validator(name).validate(message)
