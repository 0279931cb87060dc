"""The dispatch mode of a dry run: each operation's outputs have shapes, a device and a lifetime.

What touches a meta tensor or a GPU runs on torch's meta kernels, and takes no memory. What has real
tensors of the host alone runs for real (token ids, masks, a loader's indices), so that their
values are known; see `Hosting`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from jupyter_vram.dry_run.known import KnownValues
from jupyter_vram.dry_run.labels import CPU, META, Labels, native_device
from jupyter_vram.dry_run.outputs import Outputs
from jupyter_vram.dry_run.schema import Kind, kind_of
from jupyter_vram.dry_run.watch import Watch

MAX_REAL_FACTORY_BYTES = 16 << 20
"""A larger tensor of integers that the host makes has no values."""
MAX_REAL_INPUT_BYTES = 256 << 20
"""Operations on more than this run as shapes only: they would take time."""

Override = Callable[..., Any]
Scratch = Callable[[Sequence[Any], Mapping[str, Any], Any, torch.device], int]
"""Arguments, keyword arguments, result, device → bytes that the operation takes while it runs."""

_autograd: Any = torch.autograd
_record_operations: Any = _autograd._enable_record_function  # noqa: SLF001
"""Whether torch's profiler sees operations, in this thread."""
_aten = torch.ops.aten
_ACROSS_DEVICES = frozenset(
    {
        *(_aten._to_copy.default, _aten.copy_.default, _aten.index.Tensor),  # noqa: SLF001
        *(_aten.index_put_.default, _aten.index_put.default, _aten._index_put_impl_.default),
    }
)
"""Take tensors of several devices."""


class Traits(NamedTuple):
    """What is known of an operation."""

    kind: Kind
    composite: bool
    """It is made of other operations, which autograd would have seen (under inference mode it has
    not)."""
    makes: bool
    """It takes a device: a factory, where no tensor is among its arguments."""
    override: Override | None
    scratch: Scratch | None


class DeviceMismatchError(RuntimeError):
    """What torch raises where tensors of several devices meet."""


class DryRunMode(TorchDispatchMode):
    """On for as long as the user's code runs, in a process of its own."""

    def __init__(
        self,
        labels: Labels,
        watch: Watch,
        *,
        home: torch.device | None = None,
        overrides: Mapping[OpOverload, Override] | None = None,
        scratch: Mapping[OpOverload, Scratch] | None = None,
        unknown: Override | None = None,
    ) -> None:
        """
        Args:
            home: where tensors of the CPU are taken to be: a GPU, for code that runs on the CPU
                now; ``None``: where they are.
            overrides: operations that are done otherwise than by their meta kernel; called as
                ``override(mode, *args, **kwargs)``, with the mode on.
            scratch: bytes that operations take while they run.
            unknown: called as ``unknown(mode, func, args, kwargs, error)`` where an output depends
                on values that nobody has; it returns the output, or raises.
        """
        begin: Any = super().__init__
        begin()
        self.labels = labels
        self.watch = watch
        self.home = home
        self.known = KnownValues()
        self.operations = 0
        self._overrides = overrides or {}
        self._scratch = scratch or {}
        self._unknown = unknown
        self._outputs = Outputs(labels)
        self._traits: dict[OpOverload, Traits] = {}
        self._within = False
        self._latest = home or CPU
        """The device of the latest operation: that of tensors which torch's own code makes."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # a wrapper around each call, for a compiler that is off here

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run one operation, unseen: what happens here is no part of the user's code."""
        if self._within:
            return self._dispatch(func, args, kwargs)
        self._within = True
        tracer = sys.gettrace()
        if tracer is not None:
            sys.settrace(None)
        _record_operations(False)
        try:
            return self._dispatch(func, args, kwargs)
        finally:
            _record_operations(True)
            if tracer is not None:
                sys.settrace(tracer)
            self._within = False

    def _dispatch(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> Any:
        self.operations += 1
        options = dict(kwargs) if kwargs else {}
        traits = self._traits.get(func) or self._learn(func)
        tensors = tensors_of(args, options)
        explicit = self._explicit(options)
        if not self._touches_device(tensors, explicit):
            real = self._run_real(func, traits, args, options, tensors)
            if real is not NotImplemented:
                return real
        if traits.override is not None:
            with self:
                return traits.override(self, *args, **options)
        if traits.composite:
            with self:
                return func.decompose(*args, **options)
        device = explicit or self._common_device(func, tensors)
        self._latest = device
        given = dict(options)
        result = self._run_meta(func, traits, args, options, tensors, device)
        if traits.kind in (Kind.NEW, Kind.VIEW):
            self.known.follow(func, args, given, tensors, result)
        else:
            self.known.written(tensors)
        return result

    # --- where -----------------------------------------------------------------------------------

    def place(self, device: torch.device) -> torch.device:
        """Where a device that the code names is taken to be."""
        if device.type == "cpu" and self.home is not None:
            return self.home
        # Its type says that there always is an index.
        index: int | None = device.index
        return torch.device("cuda", 0) if device.type == "cuda" and index is None else device

    def _explicit(self, options: dict[str, Any]) -> torch.device | None:
        device = options.get("device")
        if device is None:
            return None
        if device.type != "meta":
            return self.place(device)
        # Either the user says meta, or torch's own code "as that tensor", which is a meta tensor.
        return META if torch.get_default_device().type == "meta" else self._latest

    def _common_device(self, func: OpOverload, tensors: Sequence[torch.Tensor]) -> torch.device:
        """The device of the operation's output. Raises `DeviceMismatchError` as torch does."""
        found: torch.device | None = None
        scalar: torch.device | None = None
        for tensor in tensors:
            device = self.labels.device(tensor)
            if device.type == "cpu" and self.home is not None:
                device = self.home
            if not tensor.dim():
                scalar = scalar if scalar is not None and scalar.type != "cpu" else device
            elif found is None or (found == CPU and func in _ACROSS_DEVICES):
                found = device
            elif found != device and func not in _ACROSS_DEVICES:
                raise DeviceMismatchError(
                    "Expected all tensors to be on the same device, but found at least two"
                    f" devices, {found} and {device}! ({func})"
                )
        if found is None:
            found = scalar
        return found if found is not None else (self.home or CPU)

    def _touches_device(
        self, tensors: Sequence[torch.Tensor], explicit: torch.device | None
    ) -> bool:
        if explicit is not None and explicit.type != "cpu":
            return True
        return any(native_device(tensor).type != "cpu" for tensor in tensors)

    # --- for real --------------------------------------------------------------------------------

    def _run_real(
        self,
        func: OpOverload,
        traits: Traits,
        args: Sequence[Any],
        options: dict[str, Any],
        tensors: Sequence[torch.Tensor],
    ) -> Any:
        """Values of the host; `NotImplemented` where only shapes are worth having."""
        if not tensors:
            return (
                self._run_factory(func, traits, args, options)
                if traits.makes
                else func(*args, **options)
            )
        if sum(tensor.numel() * tensor.itemsize for tensor in tensors) > MAX_REAL_INPUT_BYTES:
            return NotImplemented
        if traits.kind in (Kind.IN_PLACE, Kind.WRITES) and any(map(is_shared, tensors)):
            return args[0] if traits.kind is Kind.IN_PLACE else None
        result = func(*args, **options)
        self._see(result, CPU, tensors)
        return result

    def _run_factory(
        self, func: OpOverload, traits: Traits, args: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Small tensors of integers and truth values are made for real; what has a fraction may
        become a parameter."""
        if traits.kind is not Kind.NEW:
            return NotImplemented
        shape_only = {**options, "device": META, "pin_memory": None}
        if "generator" in options:  # that of a real device
            shape_only["generator"] = None
        shape = self._kernel(func, args, shape_only)
        if isinstance(shape, torch.Tensor) and not shape.numel():
            return func(*args, **options)  # a checkpoint that is read begins with such
        if (
            not isinstance(shape, torch.Tensor)
            or shape.dtype.is_floating_point
            or shape.dtype.is_complex
            or shape.numel() * shape.itemsize > MAX_REAL_FACTORY_BYTES
        ):
            if isinstance(shape, torch.Tensor):
                self.watch.see(shape.untyped_storage(), self.home or CPU)
                return shape
            return NotImplemented
        result = func(*args, **options)
        self.watch.see(result.untyped_storage(), CPU)
        return result

    # --- shapes only -----------------------------------------------------------------------------

    def _run_meta(
        self,
        func: OpOverload,
        traits: Traits,
        args: Sequence[Any],
        options: dict[str, Any],
        tensors: Sequence[torch.Tensor],
        device: torch.device,
    ) -> Any:
        if "device" in options:
            options["device"] = META
        options.pop("pin_memory", None)
        if options.get("generator") is not None:
            options["generator"] = None
        if any(native_device(tensor).type != "meta" for tensor in tensors):
            args, options = self._twins(args, device), self._twins(options, device)
        key = self._outputs.key(func, args, options) if tensors else None
        kind = traits.kind
        if kind is Kind.NEW:
            result = self._recall(key)
            if result is None:
                result = self._try(func, args, options)
                if key is not None and not _shares_storage(result, tensors):
                    self._outputs.remember(key, result)
        elif kind in (Kind.IN_PLACE, Kind.WRITES):
            if key is None or not self._outputs.is_checked(key):
                try:
                    self._try(func, args, options)
                except BaseException:
                    if key is not None:
                        self._outputs.forget_check(key)
                    raise
            result = args[0] if kind is Kind.IN_PLACE else None
        else:
            result = self._try(func, args, options)
        self._see(result, device, tensors)
        if traits.scratch is not None:
            self.watch.pass_by(traits.scratch(args, options, result, device), device)
        return result

    def _recall(self, key: Any) -> Any:
        if key is None:
            return None
        forms = self._outputs.recall(key)
        if forms is None or isinstance(forms, list):
            return forms and [form and form.make() for form in forms]
        return forms.make()

    def _try(self, func: OpOverload, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        try:
            return self._kernel(func, args, options)
        except (NotImplementedError, RuntimeError) as error:
            if self._unknown is None:
                raise
            return self._unknown(self, func, args, options, error)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Within: torch's own code makes meta tensors, which are seen when they are returned."""
        self.labels.in_kernel += 1
        try:
            yield
        finally:
            self.labels.in_kernel -= 1

    def _kernel(self, func: OpOverload, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        with self.quietly():
            return func(*args, **options)

    def _twins(self, value: Any, device: torch.device) -> Any:
        """`value` with each real tensor in it replaced by a meta tensor of its form."""
        if isinstance(value, torch.Tensor):
            if native_device(value).type == "meta":
                return value
            if self.home is not None and value.dim():
                self.watch.mirror(value, device)
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=META)
        if isinstance(value, dict):
            return {name: self._twins(item, device) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self._twins(item, device) for item in value])
        return value

    # --- what is seen ----------------------------------------------------------------------------

    def _see(self, result: Any, device: torch.device, inputs: Sequence[torch.Tensor]) -> None:
        if isinstance(result, torch.Tensor):
            self._see_one(result, device, inputs)
        elif isinstance(result, (list, tuple)):
            for item in result:
                if isinstance(item, torch.Tensor):
                    self._see_one(item, device, inputs)

    def _see_one(
        self, tensor: torch.Tensor, device: torch.device, inputs: Sequence[torch.Tensor]
    ) -> None:
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        if self.watch.knows(storage):
            return
        # A view of a tensor from before, of which the watch has not been told.
        if native_device(tensor).type == "cpu" and _shares_storage(tensor, inputs):
            return
        self.watch.see(storage, device)

    def _learn(self, func: OpOverload) -> Traits:
        traits = self._traits[func] = Traits(
            kind_of(func),
            func not in self._overrides and _is_composite(func),
            any(argument.name == "device" for argument in func._schema.arguments),  # noqa: SLF001
            self._overrides.get(func),
            self._scratch.get(func),
        )
        return traits


def tensors_of(args: Sequence[Any], options: Mapping[str, Any]) -> list[torch.Tensor]:
    """All tensors among an operation's arguments."""
    found: list[torch.Tensor] = []
    for value in (*args, *options.values()) if options else args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if isinstance(item, torch.Tensor)]
    return found


def is_shared(tensor: torch.Tensor) -> bool:
    """Whether its memory may be that of another process, or of a file: never written here."""
    storage = tensor.untyped_storage()
    return tensor.device.type == "cpu" and (storage.is_shared() or not storage.resizable())


def _shares_storage(result: Any, inputs: Sequence[torch.Tensor]) -> bool:
    tensors = [result] if isinstance(result, torch.Tensor) else result
    if not isinstance(tensors, (list, tuple)):
        return False
    known = {tensor.untyped_storage()._cdata for tensor in inputs if _has_storage(tensor)}  # noqa: SLF001
    return any(
        isinstance(tensor, torch.Tensor)
        and _has_storage(tensor)
        and tensor.untyped_storage()._cdata in known  # noqa: SLF001
        for tensor in tensors
    )


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided


def _is_composite(func: OpOverload) -> bool:
    has: bool = func.has_kernel_for_dispatch_key(
        torch._C.DispatchKey.CompositeImplicitAutograd  # noqa: SLF001
    )
    return has
