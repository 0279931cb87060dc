"""``torch.save`` and ``torch.load`` in a dry run: a checkpoint is remembered, without its values.

torch's own are compiled code, which opens files itself and reads memory that meta tensors lack.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import torch

from jupyter_vram.dry_run.copies import Copies
from jupyter_vram.dry_run.labels import native_device


def install(copies: Copies) -> None:
    """For good."""
    checkpoints = _Checkpoints(copies)
    api: Any = torch
    api.save, api.load = checkpoints.save, checkpoints.load
    tensors: Any = sys.modules.get("safetensors.torch")
    if tensors is not None:
        tensors.serialize_file = lambda _, name, *__, **___: _touch(copies, name)
        tensors._tobytes = lambda *_, **__: b""  # noqa: SLF001 - reads memory at an address


def _touch(copies: Copies, path: Any) -> str:
    name = copies.writable(path, emptied=True)
    Path(name).touch()
    return name


class _Checkpoints:
    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._saved: dict[str, bytes] = {}
        """Copy's path → a pickle of this process's."""
        self._save, self._load = torch.save, torch.load

    def save(self, obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        """`torch.save`: to a file that is open already as ever, else it is remembered."""
        if hasattr(f, "write"):
            self._save(obj, f, *args, **kwargs)
            return
        file = io.BytesIO()
        _Pickler(file).dump(obj)
        self._saved[_touch(self._copies, os.fspath(f))] = file.getvalue()

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        """`torch.load`, of what was remembered too."""
        found = None
        if not hasattr(f, "read"):
            found = self._saved.get(str(self._copies.readable(os.fspath(f))))
        if found is None:
            return self._load(f, map_location, *args, **kwargs)
        with torch.no_grad():
            return _Unpickler(io.BytesIO(found), map_location).load()


class _Pickler(pickle.Pickler):
    """Meta tensors are described: memory, which several may share, and what each sees of it."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._kept: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, torch.Tensor) or native_device(obj).type != "meta":
            return None
        self._kept.append(obj)  # so that an address stays one tensor's
        storage = obj.untyped_storage()
        return (
            (storage._cdata, storage.nbytes(), str(obj.device)),  # noqa: SLF001
            (obj.dtype, tuple(obj.shape), obj.stride(), obj.storage_offset()),
            (isinstance(obj, torch.nn.Parameter), obj.requires_grad, id(obj)),
        )


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, location: Any) -> None:
        super().__init__(file)
        self._location = location
        self._memory: dict[int, Any] = {}
        self._tensors: dict[int, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        memory, (dtype, shape, stride, offset), (is_parameter, requires_grad, key) = pid
        if key in self._tensors:
            return self._tensors[key]
        address, size_bytes, device = memory
        if address not in self._memory:
            items = size_bytes // dtype.itemsize
            self._memory[address] = torch.empty(items, dtype=dtype, device=self._place(device))
        base = self._memory[address]
        if base.dtype != dtype:
            base = base.view(dtype)
        tensor = torch.as_strided(base, shape, stride, offset)
        if is_parameter:
            tensor = torch.nn.Parameter(tensor, requires_grad)
        elif requires_grad:
            tensor = tensor.detach().requires_grad_()
        self._tensors[key] = tensor
        return tensor

    def _place(self, device: str) -> Any:
        """As `torch.load` does: a device, a mapping; a function mostly keeps it in the host."""
        location = self._location
        if location is None:
            return device
        if isinstance(location, dict):
            return location.get(device, device)
        return "cpu" if callable(location) else location
