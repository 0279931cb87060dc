"""What an operation returns for inputs of given shapes, remembered.

torch's meta kernels are Python for the most part, and take some 100 µs each: a training step
repeats the same shapes layer by layer, and from step to step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from jupyter_vram.dry_run.labels import META, Labels

Key = tuple[Any, ...]


class Form(NamedTuple):
    """A tensor's form."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype

    def make(self) -> torch.Tensor:
        """A new meta tensor of this form."""
        return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device=META)


class Unkeyed(Exception):  # noqa: N818 - not an error: this call is not remembered
    """An argument's value may matter, and can't be told apart cheaply."""


class Outputs:
    """Forms of outputs, by operation and forms of inputs."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels.of_storage
        self._forms: dict[Key, Form | list[Form | None]] = {}
        self._checked: set[Key] = set()

    def key(self, func: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key | None:
        """What the outputs' forms depend on; ``None`` if this call can't be remembered."""
        try:
            return (
                func,
                *[self._part(value) for value in args],
                *[(name, self._part(value)) for name, value in kwargs.items()],
            )
        except Unkeyed:
            return None

    def _part(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.is_complex():
                raise Unkeyed
            label = self._labels.get(value.untyped_storage()._cdata)  # noqa: SLF001
            return (value.shape, value.stride(), value.dtype, label)
        if isinstance(value, (list, tuple)):
            return tuple([self._part(item) for item in value])
        if isinstance(value, (bool, int, str, type(None), torch.dtype, torch.device)):
            # 1, 1.0 and True are equal, and promote types differently.
            return (type(value), value)
        if isinstance(value, (float, complex)):
            return type(value)  # a step size, an epsilon: no shape depends on it
        if isinstance(value, (torch.layout, torch.memory_format)):
            return value
        raise Unkeyed

    def recall(self, key: Key) -> Form | list[Form | None] | None:
        """The forms of the outputs, if they are known."""
        return self._forms.get(key)

    def remember(self, key: Key, result: Any) -> None:
        """Take down the outputs' forms, where they can be made again from them."""
        if isinstance(result, torch.Tensor):
            form = _form(result)
            if form is not None:
                self._forms[key] = form
        elif isinstance(result, (list, tuple)):
            forms = [_form(item) if isinstance(item, torch.Tensor) else None for item in result]
            plain = all(
                (form is not None) == isinstance(item, torch.Tensor)
                and (form is not None or item is None)
                for form, item in zip(forms, result, strict=True)
            )
            if plain:
                self._forms[key] = forms

    def is_checked(self, key: Key) -> bool:
        """Whether an operation that only writes was found to accept such inputs; notes it."""
        if key in self._checked:
            return True
        self._checked.add(key)
        return False

    def forget_check(self, key: Key) -> None:
        """It was refused after all."""
        self._checked.discard(key)


def _form(tensor: torch.Tensor) -> Form | None:
    if type(tensor) is not torch.Tensor or not tensor.is_meta or tensor.layout != torch.strided:
        return None
    form = Form(tensor.shape, tensor.stride(), tensor.dtype)
    if tensor.untyped_storage().nbytes() != _nbytes(form):
        return None
    return form


def _nbytes(form: Form) -> int:
    if 0 in form.size:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(form.size, form.stride, strict=True))
    return (last + 1) * form.dtype.itemsize
