"""The tree of modules: sums, equal layers as one, different ones apart."""

from __future__ import annotations

from jupyter_vram.analysis.module_tree import module_tree
from jupyter_vram.model.report_data import ModuleNode, Row
from jupyter_vram.model.trace import Module


def rows(**sizes: int) -> list[Row]:
    return [Row(name.replace("__", "."), size, 1) for name, size in sizes.items()]


def modules(**classes: str) -> list[Module]:
    return [Module(name.replace("__", "."), kind) for name, kind in classes.items()]


def test_a_parent_holds_what_its_children_hold() -> None:
    (root,) = module_tree(
        rows(model=1, model__a=10, model__b=20),
        modules(model="Net", model__a="Linear", model__b="Linear"),
    )
    assert (root.name, root.class_name, root.bytes) == ("model", "Net", 31)
    assert [(child.name, child.bytes) for child in root.children] == [("b", 20), ("a", 10)]


def test_numbered_layers_of_one_class_are_one_node() -> None:
    layers = {f"model__h__{number}__mlp": 5 for number in range(12)}
    classes = {f"model__h__{number}": "Block" for number in range(12)}
    (root,) = module_tree(
        rows(**layers, model__head=7), modules(model="Net", **classes, model__h="ModuleList")
    )
    stack, head = root.children
    assert (stack.name, stack.class_name, stack.repeats, stack.bytes) == ("h.*", "Block", 12, 60)
    assert stack.children == (ModuleNode("mlp", "", 60),)
    assert head.name == "head"


def test_a_sequence_of_different_modules_stays_apart() -> None:
    (root,) = module_tree(
        rows(model__0=5, model__1=6, model__2=7),
        modules(model__0="Linear", model__1="ReLU", model__2="Linear"),
    )
    assert sorted(child.name for child in root.children) == ["0", "1", "2"]


def test_some_of_many_numbers_stay_apart() -> None:
    classes = {f"model__{number}": "Linear" for number in (0, 2, 5)}
    (root,) = module_tree(rows(model__0=5, model__2=5, model__5=5), modules(**classes))
    assert [child.repeats for child in root.children] == [1, 1, 1]


def test_equal_layers_between_others_are_one_node() -> None:
    kinds = ["Embedding", "Block", "Block", "Block", "Linear"]
    classes = {f"model__{number}": kind for number, kind in enumerate(kinds)}
    sizes = {f"model__{number}": 10 - number for number in range(5)}
    (root,) = module_tree(rows(**sizes), modules(model="Sequential", **classes))
    assert [(child.name, child.repeats, child.bytes) for child in root.children] == [
        ("1–3", 3, 24),
        ("0", 1, 10),
        ("4", 1, 6),
    ]


def test_what_no_module_holds_is_not_in_the_tree() -> None:
    assert module_tree([Row("(no module)", 5, 1)], []) == ()
