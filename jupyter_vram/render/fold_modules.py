"""A module tree with fewer nodes."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jupyter_vram.model.report_data import ModuleNode


@dataclass(slots=True)
class _Branch:
    node: ModuleNode
    depth: int
    children: list[_Branch] = field(default_factory=list)


def prune(
    roots: Sequence[ModuleNode], limit: int, depth: int, rename: Callable[[str], str]
) -> tuple[tuple[ModuleNode, ...], int]:
    """At most `limit` nodes on `depth` levels, and how many are not shown.

    The largest nodes open first. Siblings that find no room become one node with the sum of their
    bytes, so that what a node's children hold does not change.
    """
    top = _Branch(ModuleNode("", "", 0, children=tuple(roots)), 0)
    room, shown, waiting, order = limit, 0, [(0, 0, top)], 0
    while waiting and room > 0:
        _, _, branch = heapq.heappop(waiting)
        nodes = branch.node.children
        kept, rest = _split(nodes, min(room, max(1, limit // 3)))
        branch.children = [_Branch(node, branch.depth + 1) for node in (*kept, *rest)]
        room -= len(branch.children)
        shown += len(kept)
        for child in branch.children[: len(kept)]:
            if child.node.children and child.depth < depth:
                order += 1
                heapq.heappush(waiting, (-child.node.bytes, order, child))
    return tuple(_tree(branch, rename) for branch in top.children), _count(roots) - shown


def _split(
    nodes: Sequence[ModuleNode], room: int
) -> tuple[Sequence[ModuleNode], Sequence[ModuleNode]]:
    """The nodes to show, in their order, and one for the others, if there are any."""
    if len(nodes) <= room:
        return nodes, ()
    largest = sorted(range(len(nodes)), key=lambda i: -nodes[i].bytes)[: room - 1]
    shown = set(largest)
    others = [node for i, node in enumerate(nodes) if i not in shown]
    rest = ModuleNode(f"… {len(others):,} more", "", sum(node.bytes for node in others))
    return [nodes[i] for i in sorted(shown)], (rest,)


def _tree(branch: _Branch, rename: Callable[[str], str]) -> ModuleNode:
    return dataclasses.replace(
        branch.node,
        name=rename(branch.node.name),
        class_name=rename(branch.node.class_name),
        children=tuple(_tree(child, rename) for child in branch.children),
    )


def _count(roots: Sequence[ModuleNode]) -> int:
    pending, count = list(roots), 0
    while pending:
        count += 1
        pending.extend(pending.pop().children)
    return count
