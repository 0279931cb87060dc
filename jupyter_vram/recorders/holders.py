"""Who holds which tensor now: modules, optimizers, and the user's variables, by name.

It looks, and keeps nothing alive: what it returns are addresses, sizes and names.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jupyter_vram.model.trace import Owner
from jupyter_vram.model.units import Category
from jupyter_vram.recorders.variables import reached

MAX_GRAPH_NODES = 50_000


class Storage(NamedTuple):
    """Memory behind a tensor."""

    device: str
    address: int
    size_bytes: int
    foreign: bool
    """Not allocated by torch: NumPy's memory, a mapped file."""


class Held(NamedTuple):
    """A storage, what it is, and who holds it."""

    storage: Storage
    identity: Category | None
    owner: Owner | None


@dataclasses.dataclass(slots=True)
class Holders:
    """All storages that live now, and the graphs that live."""

    held: dict[tuple[str, int], Held]
    """By device and address."""
    graph_owners: dict[int, Owner]
    """Autograd's sequence number of a node that is alive → whose graph it belongs to."""
    module_names: dict[int, tuple[str, str]]
    """id of a module → its path (from the variable's name) and class."""
    names: dict[int, str]
    """id of a parameter or an optimizer → its name."""


NOBODY = Holders({}, {}, {}, {})


class Gone:
    """When storages went that were there at the start: torch's profiler does not tell.

    It watches storages, never tensors: a weak reference to those breaks ``module.to``. torch keeps
    the Python object of a storage for as long as its memory lives.
    """

    def __init__(self) -> None:
        self.events: list[tuple[int, str, int]] = []
        """Time (ns since the epoch), device, address; in the order of time."""
        self._watches: list[weakref.ref[Any]] = []

    def watch(self, key: tuple[str, int], storage: Any) -> None:
        """Note when it goes."""

        def note(_: object) -> None:
            self.events.append((time.time_ns(), *key))

        self._watches.append(weakref.ref(storage, note))

    def end(self) -> None:
        """Watch no more."""
        self._watches.clear()


def storage_of(tensor: Any) -> Storage | None:
    """The storage of a tensor; ``None`` for those that have none (meta, fake, sparse)."""
    try:
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        device, foreign = tensor.device, not storage.resizable()
    except Exception:  # noqa: BLE001 - a tensor's subclass may raise anything
        return None
    if not address or not size or device.type == "meta":
        return None
    index = "" if device.index is None or device.type == "cpu" else f":{device.index}"
    return Storage(f"{device.type}{index}", address, size, foreign)


StorageOf = Callable[[Any], Storage | None]
"""The memory behind a tensor; ``None`` for those that have none."""


def find_holders(
    namespace: Mapping[str, object], gone: Gone | None = None, storage_of: StorageOf = storage_of
) -> Holders:
    """Look at all tensors, modules and optimizers that Python knows.

    Args:
        namespace: the user's variables. Names that begin with ``_`` come last, as IPython's own.
        gone: is told when one of these storages goes.
        storage_of: how a tensor's memory is told.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return NOBODY
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # looking at a deprecated property is not the user's call
        return _Search(torch, namespace, gone, storage_of).run()


def living(torch: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """All tensors, modules and optimizers that Python's garbage collector knows."""
    tensors = _with_subclasses(torch.Tensor)
    modules = _with_subclasses(torch.nn.Module)
    optimizers = _with_subclasses(torch.optim.Optimizer)
    wanted = tensors | modules | optimizers
    # One look per object: there are hundreds of thousands.
    found = [value for value in gc.get_objects() if type(value) in wanted]
    return (
        [value for value in found if type(value) in tensors],
        [value for value in found if type(value) in modules],
        [value for value in found if type(value) in optimizers],
    )


class _Search:
    def __init__(
        self,
        torch: Any,
        namespace: Mapping[str, object],
        gone: Gone | None,
        storage_of: StorageOf,
    ) -> None:
        self.torch = torch
        self.storage_of = storage_of
        self.namespace = namespace
        self.gone = gone
        self.held: dict[tuple[str, int], Held] = {}
        self.graph_owners: dict[int, Owner] = {}
        self.module_names: dict[int, tuple[str, str]] = {}
        self.names: dict[int, str] = {}
        self.graph_budget = MAX_GRAPH_NODES
        self.seen_nodes: set[int] = set()
        self.saved_names: dict[type, list[str]] = {}

    def run(self) -> Holders:
        tensors, modules, optimizers = living(self.torch)
        torch = self.torch
        wanted = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
        named = list(reached(self.namespace, wanted))
        names = {id(value): name for name, value in reversed(named)}
        tensor_type = self.torch.Tensor
        # Outermost first: a module that another contains has that one's name.
        inner = {
            id(child)
            for module in modules
            for child in module.__dict__.get("_modules", {}).values()
        }
        module_type = self.torch.nn.Module
        in_variables = [(name, value) for name, value in named if isinstance(value, module_type)]
        for name, module in in_variables:
            self._add_module(name, module)
        for module in sorted(modules, key=lambda module: id(module) in inner):
            self._add_module(type(module).__name__, module)
        for optimizer in optimizers:
            self._add_optimizer(names.get(id(optimizer), type(optimizer).__name__), optimizer)
        variables = [(name, value) for name, value in named if isinstance(value, tensor_type)]
        for name, value in variables:
            self._add(value, _result(value), Owner(name))
            self._add_grad(value, f"{name}.grad")
        for name, value in variables:
            self._add_graph(value, Owner(name, through_graph=True))
        for tensor in tensors:
            self._add_graph(tensor, None)
            self._add(tensor, _result(tensor), None)
        return Holders(self.held, self.graph_owners, self.module_names, self.names)

    # --- what is what ------------------------------------------------------------------------

    def _add(
        self,
        tensor: Any,
        identity: Category | None,
        owner: Owner | None,
        *,
        only_new: bool = False,
    ) -> None:
        storage = self.storage_of(tensor)
        if storage is None:
            return
        key = (storage.device, storage.address)
        known = self.held.get(key)
        if known is None:
            self.held[key] = Held(storage, identity, owner)
            if self.gone is not None:
                self.gone.watch(key, tensor.untyped_storage())
        elif not only_new and (known.owner is None or known.identity is None):
            self.held[key] = Held(storage, known.identity or identity, known.owner or owner)

    def _add_module(self, name: str, module: Any) -> None:
        pending = [(name, module)]
        while pending:
            path, inner = pending.pop()
            fields = inner.__dict__
            # A module whose constructor has not run has no parameters yet.
            if id(inner) in self.module_names or "_parameters" not in fields:
                continue
            self.module_names[id(inner)] = (path, type(inner).__name__)
            pending.extend(
                (f"{path}.{key}", child)
                for key, child in reversed(fields["_modules"].items())
                if child is not None
            )
            for key, parameter in fields["_parameters"].items():
                if parameter is not None:
                    full = f"{path}.{key}"
                    self.names.setdefault(id(parameter), full)
                    self._add(parameter, "parameter", Owner(full, module=path))
                    self._add_grad(parameter, f"{full}.grad", path)
            for key, buffer in fields["_buffers"].items():
                if buffer is not None:
                    self._add(buffer, "buffer", Owner(f"{path}.{key}", module=path))

    def _add_grad(self, tensor: Any, name: str, module: str = "") -> None:
        try:
            grad = tensor.grad if tensor.is_leaf else None
        except Exception:  # noqa: BLE001 - a tensor's subclass may raise anything
            return
        if grad is not None:
            self._add(grad, "gradient", Owner(name, module=module))

    def _add_optimizer(self, name: str, optimizer: Any) -> None:
        self.names[id(optimizer)] = name
        for number, group in enumerate(getattr(optimizer, "param_groups", ())):
            for position, parameter in enumerate(group.get("params", ())):
                fallback = f"{name}.param_groups[{number}]['params'][{position}]"
                parameter_name = self.names.get(id(parameter), fallback)
                module = parameter_name.rpartition(".")[0]
                self._add(parameter, "parameter", Owner(parameter_name, module=module))
                self._add_grad(parameter, f"{parameter_name}.grad", module)
                state = optimizer.state.get(parameter, {})
                for key, value in state.items() if isinstance(state, dict) else ():
                    full = f"{name}.state[{parameter_name}]['{key}']"
                    for tensor in _tensors(value, self.torch.Tensor):
                        self._add(tensor, "optimizer state", Owner(full, module=module))

    def _add_graph(self, tensor: Any, owner: Owner | None) -> None:
        root = _graph(tensor)
        if root is None:
            return
        pending, seen = [root], {root}
        while pending and self.graph_budget > 0:
            node = pending.pop()
            number = getattr(node, "_sequence_nr", int)()
            if number in self.seen_nodes:
                continue  # and so is all below it
            self.seen_nodes.add(number)
            self.graph_budget -= 1
            if owner is not None:
                self.graph_owners[number] = owner
            for saved in self._saved(node):
                self._add(saved, "activation", owner, only_new=True)
            for inner, _ in node.next_functions:
                if inner is not None and inner not in seen:
                    seen.add(inner)
                    pending.append(inner)

    def _saved(self, node: Any) -> Iterator[Any]:
        """What a node keeps for backward, as it is: nothing is unpacked or computed again."""
        kind = type(node)
        names = self.saved_names.get(kind)
        if names is None:
            names = [name for name in dir(kind) if name.startswith("_raw_saved_")]
            self.saved_names[kind] = names
        for name in names:
            try:
                values = getattr(node, name)
            except RuntimeError:  # freed by backward
                continue
            for value in values if isinstance(values, (list, tuple)) else (values,):
                # Since torch 2.12; before, a look would run the user's hooks.
                kept = getattr(value, "data", None)
                if isinstance(kept, self.torch.Tensor):
                    yield kept


def _with_subclasses(kind: type) -> set[type]:
    found, pending = {kind}, [kind]
    while pending:
        children: list[type] = type.__subclasses__(pending.pop())
        for inner in children:
            if inner not in found:
                found.add(inner)
                pending.append(inner)
    return found


def _graph(tensor: Any) -> Any | None:
    try:
        return tensor.grad_fn
    except Exception:  # noqa: BLE001 - a tensor's subclass may raise anything
        return None


def _result(tensor: Any) -> Category | None:
    """A tensor that autograd has made is what a forward left; any other may be anything."""
    return None if _graph(tensor) is None else "activation"


def _tensors(value: Any, tensor_type: type) -> Iterator[Any]:
    if isinstance(value, tensor_type):
        yield value
    elif hasattr(value, "__tensor_flatten__"):
        inner, _ = value.__tensor_flatten__()
        yield from (getattr(value, name) for name in inner)
