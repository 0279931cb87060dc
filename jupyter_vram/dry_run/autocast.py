"""Autocast on meta tensors, which torch's own kernels leave alone: they ask for a CUDA tensor.

Its dispatch keys are switched on for all tensors, and Python kernels do what torch's do. Installed
for good.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from jupyter_vram.dry_run.autocast_lists import CPU, CUDA, Lists
from jupyter_vram.dry_run.labels import Labels, native_device

_C: Any = torch._C  # noqa: SLF001
_library: list[torch.library.Library] = []
"""A registration lasts as long as its library."""


def install(labels: Labels, home: torch.device | None) -> None:
    """Register the lists of CUDA and of the CPU. `home`: the GPU that stands in for the CPU."""
    library = torch.library.Library("aten", "IMPL")
    _library.append(library)
    cache = _Cache()
    for device_type, key, lists in (("cuda", "AutocastCUDA", CUDA), ("cpu", "AutocastCPU", CPU)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that its own kernels are replaced
            _Kernels(labels, device_type, key, cache).register(library, lists)
        # It stays excluded for as long as autocast is off.
        _C._dispatch_tls_set_dispatch_key_included(key, True)  # noqa: SLF001
    if home is not None:
        _take_cpu_for(home.type)


class _Cache:
    """Casts of parameters, which autocast keeps until its outermost block ends."""

    def __init__(self) -> None:
        self._casts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        clear: Any = torch.clear_autocast_cache

        def clear_both() -> None:
            self._casts.clear()
            clear()

        torch.clear_autocast_cache = clear_both

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """`tensor` in the lower precision."""
        keeps = (
            tensor.requires_grad
            and tensor.is_leaf
            and tensor.dtype == torch.float32
            and not tensor._is_view()  # noqa: SLF001
            and torch.is_autocast_cache_enabled()
        )
        if not keeps:
            return tensor.to(dtype)
        known = self._casts.get(id(tensor))
        if known is None:
            known = self._casts[id(tensor)] = (tensor, tensor.to(dtype))
        return known[1]


class _Kernels:
    """Kernels of one dispatch key."""

    def __init__(self, labels: Labels, device_type: str, key: str, cache: _Cache) -> None:
        self._labels = labels
        self._device_type = device_type
        self._key = key
        self._cache = cache
        self._keys = _C.DispatchKeySet(getattr(_C.DispatchKey, key))

    def register(self, library: Any, lists: Lists) -> None:
        """All of the lists that this torch has."""
        for names, kernel in (
            (lists.lower, self._lower),
            (lists.float32, self._float32),
            (lists.float32_result, self._float32_result),
            (lists.widest, self._widest),
        ):
            for name in sorted(names):
                base, _, overload = name.partition(".")
                packet = getattr(torch.ops.aten, base, None)
                operation = getattr(packet, overload or "default", None)
                if operation is not None:
                    library.impl(name, kernel(operation), self._key)

    def _is_eligible(self, tensor: torch.Tensor) -> bool:
        return (
            tensor.is_floating_point()
            and tensor.dtype != torch.float64
            and native_device(tensor).type == "meta"
            and self._labels.device(tensor).type == self._device_type
        )

    def _cast(self, value: Any, to: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        if isinstance(value, torch.Tensor):
            return to(value) if self._is_eligible(value) else value
        if isinstance(value, (list, tuple)):
            return type(value)([self._cast(item, to) for item in value])
        return value

    def _call(
        self, operation: Any, args: Any, kwargs: Any, to: Callable[[torch.Tensor], torch.Tensor]
    ) -> Any:
        with _C._ExcludeDispatchKeyGuard(self._keys):  # noqa: SLF001
            return operation(
                *[self._cast(value, to) for value in args],
                **{name: self._cast(value, to) for name, value in kwargs.items()},
            )

    def _lower(self, operation: Any) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            dtype = torch.get_autocast_dtype(self._device_type)

            def to(tensor: torch.Tensor) -> torch.Tensor:
                return tensor if tensor.dtype == dtype else self._cache.cast(tensor, dtype)

            return self._call(operation, args, kwargs, to)

        return kernel

    def _float32(self, operation: Any) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            return self._call(operation, args, kwargs, _to_float32)

        return kernel

    def _float32_result(self, operation: Any) -> Callable[..., Any]:
        schema = operation._schema.arguments  # noqa: SLF001
        position = [argument.name for argument in schema].index("dtype")

        def kernel(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if position < len(args) else kwargs.get("dtype")
            if given is None and self._is_eligible(args[0]):
                args = args[:position]
                kwargs = {**kwargs, "dtype": torch.float32}
            return self._call(operation, args, kwargs, lambda tensor: tensor)

        return kernel

    def _widest(self, operation: Any) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            lower = torch.get_autocast_dtype(self._device_type)
            found = [
                tensor
                for value in (*args, *kwargs.values())
                for tensor in (value if isinstance(value, (list, tuple)) else (value,))
                if isinstance(tensor, torch.Tensor) and self._is_eligible(tensor)
            ]
            wide = any(tensor.dtype == torch.float32 for tensor in found)
            dtype = torch.float32 if wide else lower
            return self._call(operation, args, kwargs, lambda tensor: tensor.to(dtype))

        return kernel


def _to_float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32)


def _take_cpu_for(device_type: str) -> None:
    """``autocast("cpu")`` is that of the GPU, where the CPU's tensors are taken to be on it."""
    autocast: Any = torch.autocast
    native = autocast.__init__

    def init(self: Any, device: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device == "cpu":
            device, dtype = device_type, dtype or torch.bfloat16
        native(self, device, dtype, *args, **kwargs)

    def named(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        init(self, device_type, *args, **kwargs)

    autocast.__init__ = named
