"""Rows by module → a tree, in which equal siblings (the layers of a stack) are one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_vram.analysis.attribution import NO_MODULE
from jupyter_vram.model.report_data import ModuleNode, Row
from jupyter_vram.model.trace import Module

MAX_DEPTH = 60
LEAST_FOLDED = 3


@dataclass(slots=True)
class _Node:
    own_bytes: int = 0
    children: dict[str, _Node] = field(default_factory=dict)


def module_tree(rows: Iterable[Row], modules: Iterable[Module]) -> tuple[ModuleNode, ...]:
    """The tree of what rows by module hold. `modules` tells their classes."""
    classes = {module.path: module.class_name for module in modules}
    root = _Node()
    for row in rows:
        if row.name == NO_MODULE:
            continue
        node = root
        for part in row.name.split(".")[:MAX_DEPTH]:
            node = node.children.setdefault(part, _Node())
        node.own_bytes += row.bytes
    return _children(root, "", classes)


def _children(node: _Node, path: str, classes: Mapping[str, str]) -> tuple[ModuleNode, ...]:
    found: list[ModuleNode] = []
    for name, child in node.children.items():
        inner = f"{path}.{name}" if path else name
        children = _children(child, inner, classes)
        total = child.own_bytes + sum(grandchild.bytes for grandchild in children)
        made = ModuleNode(name, classes.get(inner, ""), total, children=children)
        # A list of modules runs none of its own: its equal members stand in its place.
        if not child.own_bytes and len(children) == 1 and children[0].name == "*":
            only = children[0]
            made = ModuleNode(f"{name}.*", only.class_name, total, only.repeats, only.children)
        found.append(made)
    return _largest_first(_folded(found))


def _folded(nodes: list[ModuleNode]) -> list[ModuleNode]:
    """Consecutively numbered siblings of one class, `LEAST_FOLDED` or more, as one node: ``*`` if
    they are all that are numbered, else ``1–4``."""
    numbered = sorted((n for n in nodes if n.name.isdecimal()), key=lambda node: int(node.name))
    folded = [node for node in nodes if not node.name.isdecimal()]
    runs: list[list[ModuleNode]] = []
    for node in numbered:
        last = runs[-1][-1] if runs else None
        follows = last is not None and int(node.name) == int(last.name) + 1
        if last is not None and follows and node.class_name == last.class_name:
            runs[-1].append(node)
        else:
            runs.append([node])
    for run in runs:
        first = run[0]
        if len(run) < LEAST_FOLDED or not first.class_name:
            folded.extend(run)
            continue
        whole = len(run) == len(numbered) and first.name == "0"
        folded.append(
            ModuleNode(
                "*" if whole else f"{first.name}–{run[-1].name}",
                first.class_name,
                sum(node.bytes for node in run),
                len(run),
                _merged([child for node in run for child in node.children]),
            )
        )
    return folded


def _merged(nodes: list[ModuleNode]) -> tuple[ModuleNode, ...]:
    """Nodes of one name (and class) from several parents as one."""
    by_name: dict[tuple[str, str], list[ModuleNode]] = {}
    for node in nodes:
        by_name.setdefault((node.name, node.class_name), []).append(node)
    return _largest_first(
        [
            ModuleNode(
                name,
                class_name,
                sum(node.bytes for node in same),
                max(node.repeats for node in same),
                _merged([child for node in same for child in node.children]),
            )
            for (name, class_name), same in by_name.items()
        ]
    )


def _largest_first(nodes: list[ModuleNode]) -> tuple[ModuleNode, ...]:
    return tuple(sorted(nodes, key=lambda node: (-node.bytes, node.name)))
