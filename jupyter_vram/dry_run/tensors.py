"""What ``torch.Tensor`` answers in a dry run: the device of its label, values that nobody has.

Installed in the child process, for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from jupyter_vram.dry_run.host_values import HostValues
from jupyter_vram.dry_run.labels import META, Labels, native_device
from jupyter_vram.dry_run.mode import DryRunMode

_base: Any = torch._C.TensorBase  # noqa: SLF001
_native_is_meta: Callable[[torch.Tensor], bool] = _base.is_meta.__get__
_native_to: Any = torch.Tensor.to
_parse_to: Any = torch._C._nn._parse_to  # noqa: SLF001


def install(labels: Labels, mode: DryRunMode, values: HostValues) -> None:
    """Patch ``torch.Tensor``."""
    tensor: Any = torch.Tensor

    def is_type(kind: str) -> Any:
        return property(lambda self: labels.device(self).type == kind)

    tensor.device = property(labels.device)
    for kind in ("cuda", "cpu", "meta"):
        setattr(tensor, f"is_{kind}", is_type(kind))
    tensor.get_device = _index_of(labels)
    tensor.to = _mover(labels, mode)
    tensor.type = _typer(labels)
    tensor.cuda = _cuda
    tensor.cpu = _cpu
    tensor.pin_memory = lambda self, device=None: self  # noqa: ARG005
    tensor.is_pinned = lambda self, device=None: False  # noqa: ARG005
    tensor.requires_grad_ = _requirer(labels, mode)
    values.install()
    _index_devices()
    _tell_storages_apart()
    _patch_parameter(labels, mode)


def _indexed(device: Any) -> Any:
    """``cuda`` as ``cuda:0``: torch would ask the driver which one is meant."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device) and device.type == "cuda":
        index: int | None = device.index
        return torch.device("cuda", index or 0)
    return device


def _with_index(native: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = _indexed(kwargs["device"])
        return native(*args, **kwargs)

    return make


def _index_devices() -> None:
    """Where torch's own code moves what it has made to a device."""
    module: Any = torch
    module.utils._device._device_constructors()  # noqa: SLF001 - knows them as they are now
    for name in ("tensor", "as_tensor", "asarray"):
        setattr(module, name, _with_index(getattr(module, name)))
    context: Any = module.utils._device.DeviceContext  # noqa: SLF001
    native_init = context.__init__

    def init(self: Any, device: Any) -> None:
        native_init(self, _indexed(device))

    context.__init__ = init


def _tell_storages_apart() -> None:
    """Libraries find tied weights by where their memory begins: for meta tensors all at 0."""
    storage: Any = torch.UntypedStorage
    native = storage.data_ptr

    def data_ptr(self: Any) -> int:
        address: int = self._cdata if self.device.type == "meta" else native(self)
        return address

    storage.data_ptr = data_ptr


def _index_of(labels: Labels) -> Callable[[torch.Tensor], int]:
    def get_device(self: torch.Tensor) -> int:
        device = labels.device(self)
        return (device.index or 0) if device.type == "cuda" else -1

    return get_device


def _typer(labels: Labels) -> Callable[..., Any]:
    native: Any = torch.Tensor.type

    def type_of(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            name: str = native(self)
            kind = labels.device(self).type
            return name.replace("torch.meta.", "torch." if kind == "cpu" else f"torch.{kind}.")
        if isinstance(dtype, torch.dtype):
            return self.to(dtype)
        if isinstance(dtype, str) and dtype.startswith("torch.cuda."):
            plain = getattr(torch, dtype.rpartition(".")[2]).dtype
            return self.to("cuda", plain)
        return native(self, dtype, *args, **kwargs)

    return type_of


def _cuda(
    self: Any,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: Any = torch.preserve_format,
) -> Any:
    if device is None:
        device = "cuda"
    elif isinstance(device, int):
        device = f"cuda:{device}"
    return self.to(device, non_blocking=non_blocking, memory_format=memory_format)


def _cpu(self: Any, memory_format: Any = torch.preserve_format) -> Any:
    return self.to("cpu", memory_format=memory_format)


def _mover(labels: Labels, mode: DryRunMode) -> Callable[..., Any]:
    """``Tensor.to``: torch's own compares with the native device, which is meta."""

    def to(self: torch.Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Any:
        if "other" in kwargs:
            args = (kwargs.pop("other"), *args)
        if args and isinstance(args[0], torch.Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        elif args and isinstance(args[0], int) and not isinstance(args[0], bool):
            args = (torch.device("cuda", args[0]), *args[1:])
        if len(args) == 4:  # device, dtype, non_blocking, copy
            *args, copy = args  # type: ignore[assignment]
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        dtype = dtype or self.dtype
        options = {} if memory_format is None else {"memory_format": memory_format}
        if device is not None:
            device = mode.place(device)
            if device == labels.device(self) or (
                # A real tensor stays one: it counts on the GPU from its first use on.
                mode.home is not None and device == mode.home and native_device(self).type == "cpu"
            ):
                device = None
        if device is None:
            plain = memory_format in (None, torch.preserve_format)
            if dtype == self.dtype and not copy and plain:
                return self
            return _native_to(self, dtype, non_blocking, copy, **options)
        if device.type == "meta":
            form = torch.empty_like(self, dtype=dtype, device="cpu", **options)
            labels.of_storage[form.untyped_storage()._cdata] = META  # noqa: SLF001
            return form
        if _native_is_meta(self) and device.type == "cpu":
            # torch refuses to copy out of a meta tensor.
            return torch.empty_like(self, dtype=dtype, device=device, **options)
        return _native_to(self, device, dtype, non_blocking, copy, **options)

    return to


def to_meta(labels: Labels, mode: DryRunMode, tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor in place of a real one of the host."""
    del labels
    form = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=META)
    mode.watch.see(form.untyped_storage(), mode.home or native_device(tensor))
    return form


def _requirer(labels: Labels, mode: DryRunMode) -> Callable[..., Any]:
    native: Any = torch.Tensor.requires_grad_

    def requires_grad_(self: torch.Tensor, requires_grad: bool = True) -> torch.Tensor:
        if requires_grad and self.is_leaf and not self.requires_grad and _is_plain(self):
            with torch.no_grad():
                form = to_meta(labels, mode, self)
            torch._C._swap_tensor_impl(self, form)  # noqa: SLF001
        result: torch.Tensor = native(self, requires_grad)
        return result

    return requires_grad_


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        native_device(tensor).type == "cpu"
        and tensor.layout == torch.strided
        and (tensor.is_floating_point() or tensor.is_complex())
    )


def _patch_parameter(labels: Labels, mode: DryRunMode) -> None:
    """Parameters are shapes, wherever their data comes from: a gradient must fit its parameter."""
    parameter: Any = torch.nn.Parameter
    native = parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if isinstance(data, torch.Tensor) and _is_plain(data):
            data = to_meta(labels, mode, data.detach())
        return native(cls, data, requires_grad)

    parameter.__new__ = new
