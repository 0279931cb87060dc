"""Rows by module → a tree, in which equal siblings (the layers of a stack) are one node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from jupyter_vram.analysis.attribution import NO_MODULE
from jupyter_vram.model.report_data import ModuleNode, Row
from jupyter_vram.model.trace import Module

MAX_DEPTH = 60


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
    """Siblings of one class that are numbered from 0, three or more, as one node ``*``."""
    numbered = [node for node in nodes if node.name.isdecimal()]
    kinds = {node.class_name for node in numbered}
    numbers = {int(node.name) for node in numbered}
    if len(numbered) < 3 or len(kinds) != 1 or kinds == {""} or max(numbers) >= len(numbered):
        return nodes
    merged = ModuleNode(
        "*",
        numbered[0].class_name,
        sum(node.bytes for node in numbered),
        len(numbered),
        _merged([child for node in numbered for child in node.children]),
    )
    return [merged, *(node for node in nodes if not node.name.isdecimal())]


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
