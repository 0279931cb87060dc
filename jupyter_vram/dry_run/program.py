"""What a dry run runs: a cell, or a call of a function."""

from __future__ import annotations

import ast
import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any, Protocol, TypeGuard

from jupyter_vram.model.cell_code import CellCode


class Program(Protocol):
    """Something to run, once, in a process of its own."""

    @property
    def cell(self) -> CellCode | None:
        """The cell whose lines are told apart."""

    @property
    def namespace(self) -> Mapping[str, object]:
        """The variables that give tensors their names."""

    @property
    def labels(self) -> Mapping[str, str]:
        """File names of the user's code → how the user calls it."""

    @property
    def values(self) -> Mapping[str, int]:
        """Variables that have other values than the code, or the notebook, gives them."""

    def integers(self) -> dict[str, int]:
        """Whole numbers from 1 on that the code names: its sizes are among them."""

    def run(self) -> None:
        """Run it."""


@dataclass(slots=True)
class CellProgram:
    """A cell, as IPython would run it, in the notebook's variables."""

    cell: CellCode
    code: str
    """Python: the cell after IPython's transformations."""
    filename: str
    namespace: dict[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    """Variables that have other values than the cell, or the notebook, gives them."""

    def integers(self) -> dict[str, int]:
        """Those that the cell assigns, and those of the notebook that it names."""
        found: dict[str, int] = {}
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Name):
                value = self.namespace.get(node.id)
                if is_size(value):
                    found.setdefault(node.id, value)
        for node in ast.walk(ast.parse(self.code)):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    constant: object = node.value.value
                    if isinstance(target, ast.Name) and is_size(constant):
                        found[target.id] = constant
        return found

    def run(self) -> None:
        """Execute the cell; ``await`` at its top works."""
        self.namespace.update(self.values)
        tree = with_values(ast.parse(self.code, self.filename), self.values)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(tree, self.filename, "exec", flags)
        result = eval(code, self.namespace)
        if inspect.iscoroutine(result):
            # The kernel's own loop runs, and belongs to the parent.
            asyncio.events._set_running_loop(None)  # noqa: SLF001
            asyncio.new_event_loop().run_until_complete(result)


@dataclass(slots=True)
class CallProgram:
    """A call of a function."""

    function: Callable[..., object]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)
    """Parameters, or globals that the function names, that have other values."""

    @property
    def cell(self) -> None:
        """There is none."""

    @property
    def namespace(self) -> Mapping[str, object]:
        """What the function reaches: its closure, globals that it names, its arguments."""
        function = inspect.unwrap(self.function)
        code = getattr(function, "__code__", None)
        found: dict[str, object] = {}
        if code is not None:
            scope = function.__globals__
            found.update((name, scope[name]) for name in code.co_names if name in scope)
            found.update(inspect.getclosurevars(function).nonlocals)
            found.update(zip(code.co_varnames, self.args, strict=False))
        owner = getattr(function, "__self__", None)
        if owner is not None:
            found["self"] = owner
        found.update(self.kwargs)
        return found

    def integers(self) -> dict[str, int]:
        """Those among its arguments and its parameters' defaults, and globals that it names."""
        found = {name: value for name, value in self.namespace.items() if is_size(value)}
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # a built-in function
            return found
        bound = signature.bind_partial(*self.args, **self.kwargs)
        bound.apply_defaults()
        found.update((name, value) for name, value in bound.arguments.items() if is_size(value))
        return found

    def run(self) -> None:
        """Call it; its result goes at the end."""
        parameters = inspect.signature(self.function).parameters
        given = {name: value for name, value in self.values.items() if name in parameters}
        bound = inspect.signature(self.function).bind_partial(*self.args, **self.kwargs)
        bound.arguments.update(given)
        scope = getattr(inspect.unwrap(self.function), "__globals__", {})
        scope.update((name, value) for name, value in self.values.items() if name not in given)
        self.function(*bound.args, **bound.kwargs)


def is_size(value: object) -> TypeGuard[int]:
    """Whether it is a whole number from 1 on."""
    return type(value) is int and value >= 1


def with_values(tree: ast.Module, values: Mapping[str, int]) -> ast.Module:
    """The cell with other values in its assignments ``name = …``, wherever they stand."""

    class Assign(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.AST:
            target = node.targets[0]
            if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id in values:
                node.value = ast.copy_location(ast.Constant(values[target.id]), node.value)
            return node

        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
            return node  # its variables are its own

    changed: ast.Module = Assign().visit(tree)
    return changed


def file_labels(function: Callable[..., object]) -> dict[str, str]:
    """A function's file → its name: the lines of the file count as the user's."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return {} if code is None else {code.co_filename: Path(code.co_filename).name}
