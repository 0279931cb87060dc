"""A program as bytes for another process: tensors travel as descriptions.

Only small tensors of the host take their values along (token ids, masks, step counts); of all
others the other process gets meta tensors, and where they lie. Tensors that share memory, and
objects that are one, are so there too.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
import torch

from jupyter_vram.dry_run.labels import META, native_device
from jupyter_vram.errors import DryRunError

MAX_VALUES_BYTES = 16 << 20
"""Larger tensors travel without values."""
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class StorageForm(NamedTuple):
    """Memory that several tensors may share."""

    key: int
    size_bytes: int
    device: str


class Arrived(NamedTuple):
    """Storages that came as descriptions, to be labelled with their device."""

    storages: dict[int, tuple[torch.UntypedStorage, str]]


def pack(program: Any, setting: Any) -> bytes:
    """The program, with the variables that its code needs, and its setting.

    Raises:
        DryRunError: something that it needs can't be sent: it is named.
    """
    needed = _needed(program)
    try:
        return _dumps((needed, setting))
    except Exception as error:
        raise DryRunError(_culprit(needed, error)) from error


def unpack(data: bytes) -> tuple[Any, Arrived]:
    """The program and its setting; the storages of its meta tensors. Only what `pack` made."""
    arrived = Arrived({})
    return _Unpickler(io.BytesIO(data), arrived).load(), arrived


def _dumps(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._kept: list[torch.UntypedStorage] = []
        """So that an address stays one storage's."""
        self._grads: dict[int, torch.Tensor] = {}
        """By id: those of tensors that travel without values do so as well."""

    def persistent_id(self, obj: Any) -> Any:
        return tuple(obj) if type(obj) is StorageForm else None

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) in _PLAIN and obj.layout == torch.strided:
            return self._tensor(obj)
        return super().reducer_override(obj)

    def _tensor(self, tensor: torch.Tensor) -> Any:
        device = native_device(tensor)
        storage = tensor.untyped_storage()
        if (
            device.type == "cpu"
            and id(tensor) not in self._grads
            and not tensor.requires_grad
            and storage.nbytes() <= MAX_VALUES_BYTES
        ):
            return NotImplemented  # torch's own way
        self._kept.append(storage)
        form = StorageForm(storage._cdata, storage.nbytes(), str(device))  # noqa: SLF001
        if tensor.grad_fn is not None:
            tensor = tensor.detach()
        arguments = (
            type(tensor),
            form,
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.requires_grad,
        )
        if tensor.grad is not None:
            self._grads[id(tensor.grad)] = tensor.grad
        state = {"grad": tensor.grad, "attributes": dict(tensor.__dict__)}
        return _tensor_of, arguments, state, None, None, _set_state


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arrived: Arrived) -> None:
        super().__init__(file)
        self._arrived = arrived

    def persistent_load(self, pid: Any) -> torch.UntypedStorage:
        form = StorageForm(*pid)
        known = self._arrived.storages.get(form.key)
        if known is None:
            base = torch.empty(form.size_bytes, dtype=torch.uint8, device=META)
            known = self._arrived.storages[form.key] = (base.untyped_storage(), form.device)
        return known[0]


def _tensor_of(
    kind: type[torch.Tensor],
    storage: torch.UntypedStorage,
    dtype: torch.dtype,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
    requires_grad: bool,
) -> torch.Tensor:
    plain = torch.empty(0, dtype=dtype, device=META)
    plain.set_(storage, offset, shape, stride)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(plain, requires_grad)
    if kind is torch.nn.Buffer:
        return torch.nn.Buffer(plain)
    return plain.requires_grad_(requires_grad)


def _set_state(tensor: torch.Tensor, state: Mapping[str, Any]) -> None:
    tensor.grad = state["grad"]
    tensor.__dict__.update(state["attributes"])


# --- what is sent --------------------------------------------------------------------------------


def _needed(program: Any) -> Any:
    """The program with those variables only that its code names, itself or through functions."""
    namespace = getattr(program, "namespace", None)
    code = getattr(program, "code", None)
    labels = {name: label for name, label in list(program.labels.items()) if type(name) is str}
    if code is None or not isinstance(namespace, dict):
        return dataclasses.replace(program, labels=labels)
    found: dict[str, Any] = {}
    pending = sorted(_names(compile(code, program.filename, "exec", 0x2000)))
    while pending:
        name = pending.pop()
        if name in found or name not in namespace:
            continue
        value = found[name] = namespace[name]
        inner = getattr(value, "__code__", None)
        if isinstance(inner, types.CodeType):
            pending += _names(inner)
        elif isinstance(value, type):
            for member in vars(value).values():
                inner = getattr(member, "__code__", None)
                if isinstance(inner, types.CodeType):
                    pending += _names(inner)
    return dataclasses.replace(program, namespace=found, labels=labels)


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _culprit(program: Any, error: Exception) -> str:
    """Which variable can't be sent, as a sentence."""
    for name, value in program.namespace.items():
        if not _can_be_sent(value):
            path, kind = _deepest(name, value)
            return (
                f"{path} ({kind}) can't be sent to another process: {error}. Leave it out of the"
                " cell, or dry run without --isolated where that is possible (on Linux, before CUDA"
                " is used)."
            )
    return f"The code can't be sent to another process: {error}."


def _deepest(name: str, value: Any) -> tuple[str, str]:
    """The innermost attribute or item that can't be sent."""
    for _ in range(8):
        parts: list[tuple[str, Any]] = []
        if isinstance(value, dict):
            parts = [(f"{name}[{key!r}]", inner) for key, inner in list(value.items())[:200]]
        elif isinstance(value, (list, tuple)):
            parts = [(f"{name}[{index}]", inner) for index, inner in enumerate(value[:200])]
        elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
            parts = [(f"{name}.{key}", inner) for key, inner in vars(value).items()]
        for path, inner in parts:
            if not _can_be_sent(inner):
                name, value = path, inner
                break
        else:
            break
    return name, type(value).__name__


def _can_be_sent(value: Any) -> bool:
    try:
        _dumps(value)
    except Exception:  # noqa: BLE001 - whatever an object's own reduction raises
        return False
    return True
