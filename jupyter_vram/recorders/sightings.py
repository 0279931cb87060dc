"""What passes by while a cell runs: parameters, inputs, gradients, optimizer state, by identity.

At the end of a cell many of them are gone (a gradient after ``zero_grad``). So they are looked at
in the moments when they are there: before a module runs, before and after an optimizer's step,
before gradients are cleared.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jupyter_vram.model.trace import Owner
from jupyter_vram.model.units import Category
from jupyter_vram.recorders.holders import Holders, StorageOf, storage_of

MAX_SIGHTINGS = 500_000
MAX_INPUT_DEPTH = 3


class Sighting(NamedTuple):
    """Seen during the recording: at that time, a storage was that."""

    time_ns: int
    device: str
    address: int
    identity: Category
    form: str
    """Its name, where ``{}`` stands for that of the parameter."""
    parameter: int
    """id of the parameter, or 0."""
    fallback: str
    """The parameter's name as far as it was known then."""
    optimizer: int = 0

    def owner(self, *seen: Holders) -> Owner:
        """Named as the holders seen last name it."""
        name, form = self.fallback, self.form
        for holders in seen:
            name = holders.names.get(self.parameter, name)
            if self.optimizer in holders.names:
                form = f"{holders.names[self.optimizer]}{self.form[self.form.index('.') :]}"
        return Owner(
            form.replace("{}", name, 1), module=name.rpartition(".")[0] if self.parameter else ""
        )


class Sightings:
    """Collects what a tracer shows it."""

    def __init__(self, torch: Any, storage_of: StorageOf = storage_of) -> None:
        self._torch = torch
        self._storage_of = storage_of
        self.seen: list[Sighting] = []
        self._roots: dict[int, weakref.ref[Any]] = {}
        """Modules that have been seen, by id, which another may have later."""
        self._names: dict[int, str] = {}
        """id of a parameter → its name in the module that runs."""
        self._state_sizes: dict[int, int] = {}

    @property
    def module_call(self) -> CodeType:
        """The code that every call of a module runs."""
        code: CodeType = self._torch.nn.Module._call_impl.__code__  # noqa: SLF001
        return code

    def watched(self) -> dict[CodeType, Callable[[FrameType, str], None]]:
        """The codes of torch that are worth a look at their frame."""
        optimizer = self._torch.optim.Optimizer
        step = optimizer.profile_hook_step(_nothing).__code__
        found: dict[CodeType, Callable[[FrameType, str], None]] = {step: self._on_step}
        for owner in (optimizer, self._torch.nn.Module):
            found[inspect.unwrap(owner.zero_grad).__code__] = self._on_zero_grad
        return found

    def on_root(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A module that no other called begins to run."""
        now = time.time_ns()
        if not self._knows(module):
            self._roots[id(module)] = weakref.ref(module)
            name = type(module).__name__
            for path, parameter in module.named_parameters(prefix=name):
                self._names[id(parameter)] = path
                self._see(now, parameter, "parameter", "{}", parameter, path)
            for path, buffer in module.named_buffers(prefix=name):
                self._see(now, buffer, "buffer", path)
        elif self._torch.is_grad_enabled():
            self._see_grads(now, module.parameters())
        for number, value in enumerate(args):
            self._see_input(now, value, f"argument {number + 1}")
        for key, value in kwargs.items():
            self._see_input(now, value, key)

    def _knows(self, module: Any) -> bool:
        known = self._roots.get(id(module))
        return known is not None and known() is module

    def _on_step(self, frame: FrameType, event: str) -> None:
        optimizer = (frame.f_locals.get("args") or (None,))[0]
        if not isinstance(optimizer, self._torch.optim.Optimizer):
            return
        now = time.time_ns()
        if event == "call":
            self._see_grads(now, _parameters(optimizer))
            return
        count = sum(len(state) for state in optimizer.state.values() if isinstance(state, dict))
        if self._state_sizes.get(id(optimizer)) == count:
            return
        self._state_sizes[id(optimizer)] = count
        name = type(optimizer).__name__
        for parameter, state in optimizer.state.items():
            if not isinstance(state, dict):
                continue
            owner = self._names.get(id(parameter), "a parameter")
            for key, value in state.items():
                form = f"{name}.state[{{}}]['{key}']"
                self._see(now, value, "optimizer state", form, parameter, owner, id(optimizer))

    def _on_zero_grad(self, frame: FrameType, event: str) -> None:
        if event != "call":
            return
        owner = frame.f_locals.get("self")
        if isinstance(owner, self._torch.optim.Optimizer):
            self._see_grads(time.time_ns(), _parameters(owner))
        elif isinstance(owner, self._torch.nn.Module):
            self._see_grads(time.time_ns(), owner.parameters())

    def _see_grads(self, now: int, parameters: Iterator[Any]) -> None:
        for parameter in parameters:
            grad = parameter.grad
            if grad is not None:
                name = self._names.get(id(parameter), "a parameter")
                self._see(now, grad, "gradient", "{}.grad", parameter, name)

    def _see_input(self, now: int, value: Any, name: str, depth: int = 0) -> None:
        if isinstance(value, self._torch.Tensor):
            if value.grad_fn is None and not isinstance(value, self._torch.nn.Parameter):
                self._see(now, value, "input", name)
        elif depth < MAX_INPUT_DEPTH and isinstance(value, (list, tuple)):
            for item in value[:64]:
                self._see_input(now, item, name, depth + 1)
        elif depth < MAX_INPUT_DEPTH and isinstance(value, dict):
            for key, item in list(value.items())[:64]:
                self._see_input(now, item, f"{name}[{key!r}]", depth + 1)

    def _see(
        self,
        now: int,
        tensor: Any,
        identity: Category,
        form: str,
        parameter: Any = None,
        fallback: str = "",
        optimizer: int = 0,
    ) -> None:
        if len(self.seen) >= MAX_SIGHTINGS or not isinstance(tensor, self._torch.Tensor):
            return
        storage = self._storage_of(tensor)
        if storage is not None:
            number = 0 if parameter is None else id(parameter)
            place = (now, storage.device, storage.address, identity)
            self.seen.append(Sighting(*place, form, number, fallback, optimizer))


def _nothing(self: object) -> None:
    """Stands for an optimizer's step: what wraps it is one code for all of them."""


def _parameters(optimizer: Any) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
