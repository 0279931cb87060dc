"""Values that nobody has: what a dry run assumes where the code asks a meta tensor for them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jupyter_vram.dry_run.labels import native_device
from jupyter_vram.errors import DryRunError
from jupyter_vram.model.estimate import Assumption

MOST_BRANCHES = 5_000
"""Answers to one line's question whether, after which its loop is taken to have no end."""
BRANCH = "Another branch may need more or less memory."
UPPER = "The peak is an upper bound."
_aten = torch.ops.aten


class HostValues:
    """Answers with stated assumptions. `where` names the user's line that asks."""

    def __init__(
        self,
        where: Callable[[], str],
        known: Callable[[torch.Tensor], torch.Tensor | None] = lambda _: None,
    ) -> None:
        """`known`: the values of a tensor, where they are known after all."""
        self._where = where
        self.known = known
        self._asked: Counter[str] = Counter()
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
            ("numpy", _array),
            ("__array__", _array),
        ):
            setattr(tensor, name, self._answering(name, getattr(tensor, name), answer))

    def _answering(
        self, name: str, native: Callable[..., Any], answer: Callable[[torch.Tensor], Any]
    ) -> Callable[..., Any]:
        decides = name in ("__bool__", "is_nonzero", "__int__", "__index__")

        def method(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if native_device(tensor).type != "meta":
                return native(tensor, *args, **kwargs)
            known = self.known(tensor)
            if known is not None:
                return native(known, *args, **kwargs)
            value = answer(tensor)
            if decides:
                self._decide(f"{name.strip('_')}() of a tensor", value)
            return value

        return method

    def _decide(self, what: str, value: Any) -> None:
        where = self._where()
        self._asked[where] += 1
        if self._asked[where] > MOST_BRANCHES:
            raise DryRunError(
                f"{where or 'The code'} has asked {MOST_BRANCHES:,} times for values that nobody"
                " has in a dry run: its loop may not end on them. Let it run a number of steps."
            )
        self.assume(f"{what} depends on its values; {value} was assumed.", BRANCH)

    def unknown(
        self,
        mode: Any,
        func: Any,
        args: Sequence[Any],
        options: Mapping[str, Any],
        error: Exception,
    ) -> Any:
        """The output of an operation that has no meta kernel, or depends on values.

        Raises:
            DryRunError: nothing can be assumed. Whatever torch itself refuses: `error`.
        """
        del options
        name = func._schema.name.rpartition("::")[2]  # noqa: SLF001
        if name == "_local_scalar_dense":
            return _zero(args[0])
        most = _UPPER.get(name)
        if most is not None:
            self.assume(
                f"{name}() returns as much as its values say; the most that it can was assumed.",
                UPPER,
            )
            with mode.quietly():
                return most(*args)
        if func.namespace != "aten" and not func._schema.returns:  # noqa: SLF001
            return None  # an operation of a library's that only writes
        if isinstance(error, NotImplementedError):
            raise DryRunError(
                f"{self._where() or 'The code'} calls {func}, which can't be dry run: torch knows"
                " no shapes for it without values. Leave that line out of the dry run."
            ) from error
        raise error


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty((tensor.numel(), tensor.dim()), dtype=torch.int64, device=tensor.device)


def _masked_select(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    size = torch.broadcast_shapes(tensor.shape, mask.shape).numel()
    return torch.empty(size, dtype=tensor.dtype, device=tensor.device)


def _index(tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """Boolean masks take as many rows as there are."""
    shape, at, rest = [], 0, list(tensor.shape)
    for index in indices:
        if index is None:
            shape.append(rest[at])
            at += 1
        elif index.dtype in (torch.bool, torch.uint8):
            shape.append(index.numel())
            at += index.dim()
        else:
            shape += list(index.shape)
            at += 1
    return torch.empty([*shape, *rest[at:]], dtype=tensor.dtype, device=tensor.device)


def _unique(tensor: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:
    def whole() -> torch.Tensor:
        return torch.empty(tensor.numel(), dtype=torch.int64, device=tensor.device)

    found = torch.empty(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    return found, whole().view(tensor.shape), whole()


def _bincount(tensor: torch.Tensor, weights: Any = None, minlength: int = 0) -> torch.Tensor:
    dtype = torch.int64 if weights is None else weights.dtype
    return torch.empty(max(minlength, tensor.numel()), dtype=dtype, device=tensor.device)


_UPPER: dict[str, Callable[..., Any]] = {
    "nonzero": _nonzero,
    "masked_select": _masked_select,
    "index": _index,
    "_unique2": _unique,
    "unique_consecutive": _unique,
    "bincount": _bincount,
}


def _zero(tensor: torch.Tensor) -> Any:
    return 0.0 if tensor.is_floating_point() else False if tensor.dtype == torch.bool else 0


def _zeros(tensor: torch.Tensor) -> Any:
    value: Any = _zero(tensor)
    for size in reversed(tensor.shape):
        value = [value] * size
    return value


def _array(tensor: torch.Tensor) -> Any:
    import numpy as np

    kinds = {torch.bfloat16: "float32", torch.bool: "bool"}
    kind = kinds.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    return np.zeros(tuple(tensor.shape), kind)


def cell_line(is_cell: Callable[[str], bool], offset: int) -> str:
    """``line 7``: the innermost frame of the user's cell that runs; ``""`` if none does."""
    frame = sys._getframe(1)  # noqa: SLF001
    outer: Any = frame
    while outer is not None:
        if is_cell(outer.f_code.co_filename):
            return f"line {outer.f_lineno + offset}"
        outer = outer.f_back
    return ""
