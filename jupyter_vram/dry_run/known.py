"""Small whole numbers and truth values on the GPU whose values follow from the host's.

A loop that generates text ends when its tensor of "this sequence is done" says so: at the largest
length, which is known, whatever the tokens are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload

from jupyter_vram.dry_run.labels import CPU, native_device

MOST_ELEMENTS = 4096
_ATTRIBUTE = "_jupyter_vram_known"
_aten = torch.ops.aten
_OR = {_aten.bitwise_or.Tensor, _aten.logical_or.default, _aten.__or__.Tensor}
_AND = {_aten.bitwise_and.Tensor, _aten.logical_and.default, _aten.__and__.Tensor}


class _Known(NamedTuple):
    value: torch.Tensor
    writes: int
    """To its storage, when it was known."""


class KnownValues:
    """Values of meta tensors, as real tensors of the host."""

    def __init__(self) -> None:
        self._writes: Counter[int] = Counter()

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values of a tensor, where they are known and few."""
        if tensor.is_floating_point() or tensor.numel() > MOST_ELEMENTS:
            return None
        if native_device(tensor).type == "cpu":
            return tensor
        known: _Known | None = tensor.__dict__.get(_ATTRIBUTE)
        if known is None or known.writes != self._writes[_address(tensor)]:
            return None
        return known.value

    def written(self, tensors: Sequence[torch.Tensor]) -> None:
        """Forget what lies in memory that an operation has written to."""
        for tensor in tensors:
            self._writes[_address(tensor)] += 1

    def follow(
        self,
        func: OpOverload,
        args: Sequence[Any],
        options: Mapping[str, Any],
        tensors: Sequence[torch.Tensor],
        result: Any,
    ) -> None:
        """Note the values of an operation's result, if they follow from what is known."""
        if not isinstance(result, torch.Tensor) or not self._may_know(result):
            return
        if torch.Tag.nondeterministic_seeded in func.tags:
            return
        values = [self.of(tensor) for tensor in tensors]
        if None in [value if value is None else 0 for value in values]:
            value = self._dominated(func, values, result)
        else:
            place = {"device": CPU} if "device" in options else {}
            value = _computed(func, self._real(args), {**self._real(options), **place})
        if isinstance(value, torch.Tensor) and value.shape == result.shape:
            noted = _Known(value.to(result.dtype), self._writes[_address(result)])
            result.__dict__[_ATTRIBUTE] = noted

    @staticmethod
    def _may_know(tensor: torch.Tensor) -> bool:
        return (
            native_device(tensor).type == "meta"
            and tensor.layout == torch.strided
            and not tensor.is_floating_point()
            and not tensor.is_complex()
            and tensor.numel() <= MOST_ELEMENTS
        )

    @staticmethod
    def _dominated(
        func: OpOverload, values: Sequence[torch.Tensor | None], result: torch.Tensor
    ) -> torch.Tensor | None:
        """True, whatever the other side of an *or* is; 0, whatever that of an *and* is."""
        if func not in _OR and func not in _AND:
            return None
        wanted = func in _OR
        for value in values:
            if value is not None and value.dtype == torch.bool:
                decides = value.all() if wanted else value.logical_not().all()
                if bool(decides):
                    return torch.full(result.shape, wanted, dtype=result.dtype)
        return None

    def _real(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if isinstance(value, Mapping):
            return {name: self._real(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self._real(item) for item in value])
        return value


def _computed(func: Callable[..., Any], args: Any, options: Mapping[str, Any]) -> Any:
    try:
        return func(*args, **options)
    except (RuntimeError, NotImplementedError):
        return None  # the host has no such operation


def _address(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage()._cdata  # noqa: SLF001
    return address
