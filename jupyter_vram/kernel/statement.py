"""Runs code as a magic must: in the user's namespace, errors included, and returns its value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

FILENAME = "<vram>"
"""The file name of the code, in tracebacks."""


class Statement:
    """Compiled code of a user's: what IPython understands in a cell, but for ``await``."""

    def __init__(self, shell: InteractiveShell, text: str) -> None:
        """Raises `SyntaxError`, or `UsageError` where it awaits."""
        self._shell = shell
        compiler: Any = shell.compile
        transform: Any = shell.transform_cell
        transform_tree: Any = shell.transform_ast
        tree = transform_tree(compiler.ast_parse(transform(text), FILENAME))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            self._code = compiler(tree, FILENAME, "exec")
            self._value = last and compiler(ast.Expression(last.value), FILENAME, "eval")
        except SyntaxError as error:
            if "await" in str(error) or "async" in str(error):
                raise UsageError(
                    "A magic that is called can't await. Put %%vram in the first line of a cell:"
                    " there, await works."
                ) from None
            raise

    def run(self, local_ns: dict[str, Any] | None) -> Any:
        """The last expression's value; ``None`` if it ends with something else.

        `local_ns`: the names of the function that it stands in, if any.
        """
        exec(self._code, self._shell.user_ns, local_ns)
        return self._value and eval(self._value, self._shell.user_ns, local_ns)
