"""The notebook's live tensors as meta tensors: what a dry run begins with.

Only in a process of its own: the tensors' Python objects stay the same, and lose their values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from jupyter_vram.dry_run.labels import META, Labels, native_device
from jupyter_vram.dry_run.watch import Watch
from jupyter_vram.recorders.holders import living

_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


class Swaps:
    """Replaces tensors; those that share a storage share it afterwards."""

    def __init__(self, labels: Labels, watch: Watch, home: torch.device | None) -> None:
        """`home`: the device that tensors of models on the CPU get; ``None``: the CPU."""
        self._labels = labels
        self._watch = watch
        self._home = home
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._done: set[int] = set()

    def swap_all(self) -> None:
        """Everything of models and optimizers, and all that is on a GPU. Data on the host stays
        as it is."""
        tensors, modules, optimizers = living(torch)
        for tensor in tensors:
            if native_device(tensor).type not in ("cpu", "meta"):
                self.swap(tensor)
        for module in modules:
            for tensor in _of_module(module):
                self.swap(tensor)
        for optimizer in optimizers:
            for tensor in _of_optimizer(optimizer):
                self.swap(tensor)
        for tensor in tensors:
            if tensor.requires_grad and tensor.is_leaf:
                self.swap(tensor)

    def swap(self, tensor: torch.Tensor) -> None:
        """One tensor, and its gradient."""
        if id(tensor) in self._done or type(tensor) not in _PLAIN:
            return
        self._done.add(id(tensor))
        if native_device(tensor).type == "meta" or tensor.layout != torch.strided:
            return
        if tensor.grad_fn is not None:
            return  # its graph holds the values
        form = self._form(tensor)
        grad = tensor.grad
        if grad is not None:
            self.swap(grad)
        hooks = getattr(tensor, "_post_accumulate_grad_hooks", None)
        backward_hooks = getattr(tensor, "_backward_hooks", None)
        form.requires_grad_(tensor.requires_grad)
        torch._C._swap_tensor_impl(tensor, form)  # noqa: SLF001
        if grad is not None:
            tensor.grad = grad
        for hook in (backward_hooks or {}).values():
            tensor.register_hook(hook)
        for hook in (hooks or {}).values():
            tensor.register_post_accumulate_grad_hook(hook)

    def _form(self, tensor: torch.Tensor) -> torch.Tensor:
        real = tensor.untyped_storage()
        key = real._cdata  # noqa: SLF001
        storage = self._storages.get(key)
        if storage is None:
            size_bytes = real.nbytes()
            base = torch.empty(size_bytes, dtype=torch.uint8, device=META)
            storage = self._storages[key] = base.untyped_storage()
            device = native_device(tensor)
            if device.type == "cpu" and self._home is not None:
                device = self._home
            self._watch.add(storage, device)
        form = torch.empty(0, dtype=tensor.dtype, device=META)
        with torch.no_grad():
            form.set_(
                storage,
                tensor.storage_offset(),
                tensor.size(),
                tensor.stride(),
            )
        return form


def _of_module(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    fields = module.__dict__
    for kind in ("_parameters", "_buffers"):
        for tensor in fields.get(kind, {}).values():
            if isinstance(tensor, torch.Tensor):
                yield tensor


def _of_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from (tensor for tensor in group["params"] if isinstance(tensor, torch.Tensor))
    state: dict[Any, Any] = optimizer.state
    for values in state.values():
        if isinstance(values, dict):
            # Counts of steps are asked for their values.
            yield from (
                value
                for value in values.values()
                if isinstance(value, torch.Tensor) and value.dim()
            )
