"""The user's variables, and what they reach: an expression for each thing that is looked for.

Nothing of the user's runs: types are told by `type`, containers are read as the built-in ones that
they are, objects through their own ``__dict__`` alone.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_OBJECTS = 50_000
"""Objects that are looked into."""
MAX_DEPTH = 6
_FOLDERS = re.compile(r"^.*[/\\]")
_CLOSED = (
    *(str, bytes, int, float, complex, bool, type(None), type, types.ModuleType),
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType),
)
"""Holds nothing that is looked for."""


def reached(namespace: Mapping[str, object], wanted: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """Expressions and values of the `wanted` types that variables reach, nearest first.

    Names that begin with ``_``, which are IPython's own, come last.
    """
    names = [name for name in list(namespace) if type(name) is str]
    names.sort(key=lambda name: (name.startswith("_") or name in ("Out", "In"), len(name)))
    level: list[tuple[str, Any]] = [(name, namespace[name]) for name in names if name in namespace]
    seen = {id(namespace)}
    budget = MAX_OBJECTS
    for _ in range(MAX_DEPTH):
        deeper: list[tuple[str, Any]] = []
        for name, value in level:
            kind = type(value)
            if issubclass(kind, _CLOSED) or id(value) in seen:
                continue
            seen.add(id(value))
            budget -= 1
            if budget < 0:
                return
            if issubclass(kind, wanted):
                yield name, value
            else:
                deeper.extend(_parts(name, value, kind, budget))
        level = deeper


def _parts(name: str, value: Any, kind: type, most: int) -> Iterable[tuple[str, Any]]:
    """What a container or an object holds, with the expression that reaches it."""
    if issubclass(kind, dict):
        items = list(dict.items(value))[:most]
        return [(f"{name}[{short_key(key)}]", inner) for key, inner in items]
    if issubclass(kind, tuple):
        fields = kind.__dict__.get("_fields")
        items = list(tuple.__iter__(value))[:most]
        if type(fields) is tuple and len(fields) == tuple.__len__(value):
            return [(f"{name}.{key}", inner) for key, inner in zip(fields, items, strict=False)]
        return [(f"{name}[{index}]", inner) for index, inner in enumerate(items)]
    if issubclass(kind, list):
        return [
            (f"{name}[{index}]", inner)
            for index, inner in enumerate(list.__getitem__(value, slice(most)))
        ]
    if issubclass(kind, (set, frozenset)):
        base = set if issubclass(kind, set) else frozenset
        return [(f"one of {name}", inner) for inner in list(base.__iter__(value))[:most]]
    if issubclass(kind, types.GeneratorType):
        frame = value.gi_frame
        local = dict(frame.f_locals) if frame is not None else {}
        return [(f"{key} in {name}", inner) for key, inner in local.items()]
    try:
        fields = object.__getattribute__(value, "__dict__")
    except Exception:  # noqa: BLE001 - a property of that name may raise anything
        return ()
    if type(fields) is not dict or len(fields) > most:
        return ()
    return [(f"{name}.{key}", inner) for key, inner in list(fields.items())]


def short_key(key: object) -> str:
    """A key as it stands between brackets. Names are shown and saved: of a path, only the end."""
    if type(key) is str:
        key = _FOLDERS.sub("…/", key)
    text = repr(key) if type(key) in (str, int, float, bool) else type(key).__name__
    return text if len(text) <= 40 else f"{text[:37]}…"
