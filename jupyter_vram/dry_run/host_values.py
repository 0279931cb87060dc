"""Values that nobody has: what a dry run assumes where the code asks a meta tensor for them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jupyter_vram.dry_run.labels import native_device
from jupyter_vram.model.estimate import Assumption


class HostValues:
    """Answers with stated assumptions. `where` names the user's line that asks."""

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where
        self.assumptions: dict[Assumption, None] = {}

    def assume(self, text: str, effect: str) -> None:
        """Note an assumption; each is told once per line."""
        where = self._where()
        self.assumptions.setdefault(
            Assumption(f"{where}: {text}" if where else f"{text[0].upper()}{text[1:]}", effect)
        )

    def install(self) -> None:
        """Patch the methods of ``torch.Tensor`` that return values."""
        tensor: Any = torch.Tensor
        for name, answer in (
            ("item", _zero),
            ("__bool__", lambda _: False),
            ("is_nonzero", lambda _: False),
            ("__float__", lambda _: 0.0),
            ("__int__", lambda _: 0),
            ("__index__", lambda _: 0),
            ("tolist", _zeros),
        ):
            setattr(tensor, name, self._answering(name, getattr(tensor, name), answer))

    def _answering(
        self, name: str, native: Callable[..., Any], answer: Callable[[torch.Tensor], Any]
    ) -> Callable[..., Any]:
        def method(tensor: torch.Tensor, *args: Any) -> Any:
            if native_device(tensor).type != "meta":
                return native(tensor, *args)
            value = answer(tensor)
            if name not in ("item", "__float__", "tolist"):
                self.assume(
                    f"{name.strip('_')}() of a tensor depends on its values; {value} was assumed.",
                    "Another branch may need more or less memory.",
                )
            return value

        return method

    def unknown(
        self,
        mode: Any,
        func: Any,
        args: Sequence[Any],
        options: Mapping[str, Any],
        error: Exception,
    ) -> Any:
        """The output of an operation that has no meta kernel, or depends on values."""
        del mode, args, options
        raise error


def _zero(tensor: torch.Tensor) -> Any:
    return 0.0 if tensor.is_floating_point() else False if tensor.dtype == torch.bool else 0


def _zeros(tensor: torch.Tensor) -> Any:
    value: Any = _zero(tensor)
    for size in reversed(tensor.shape):
        value = [value] * size
    return value


def cell_line(is_cell: Callable[[str], bool], offset: int) -> str:
    """``line 7``: the innermost frame of the user's cell that runs; ``""`` if none does."""
    frame = sys._getframe(1)  # noqa: SLF001
    outer: Any = frame
    while outer is not None:
        if is_cell(outer.f_code.co_filename):
            return f"line {outer.f_lineno + offset}"
        outer = outer.f_back
    return ""
