"""Data loaders in a dry run: batches are fetched in this process, for real; a few are enough."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch.utils import data

from jupyter_vram.dry_run.host_values import HostValues
from jupyter_vram.dry_run.watch import Watch

ENOUGH = 3
"""Batches in a row that need the same, after which a loop over a loader ends."""


_Figures = tuple[tuple[str, int], ...]
"""Bytes by device."""


class _Step(NamedTuple):
    """What a device held when a batch was asked for, and the most until then."""

    live: _Figures
    peak: _Figures
    shapes: tuple[Any, ...]


def install(values: HostValues, watch: Watch) -> None:
    """No worker processes, no pinned memory; loops end when they repeat themselves."""
    module: Any = data.dataloader
    loader: Any = data.DataLoader

    def get_iterator(self: Any) -> Any:
        return _Batches(self, values, watch)

    loader._get_iterator = get_iterator  # noqa: SLF001 - torch has no other door
    # Iterators from before: their workers, and what these have sent, are the parent's.
    multiple: Any = module._MultiProcessingDataLoaderIter  # noqa: SLF001

    def go_on(self: Any) -> Any:
        own = self.__dict__.get("_in_process")
        if own is None:
            own = self.__dict__["_in_process"] = _Batches(self._loader_of, values, watch)
        return next(own)

    multiple._loader_of = property(_loader_like)  # noqa: SLF001
    multiple.__next__ = go_on
    multiple.__del__ = lambda _: None


def _loader_like(iterator: Any) -> Any:
    """A loader of the same data as an iterator's, which does not keep its own."""
    return _Like(iterator)


class _Like:
    """What `_Batches` needs of a loader."""

    def __init__(self, iterator: Any) -> None:
        self.dataset = iterator._dataset  # noqa: SLF001
        self.collate_fn = iterator._collate_fn  # noqa: SLF001
        self.is_iterable = iterator._dataset_kind == 1  # noqa: SLF001
        self._index_sampler = iterator._index_sampler  # noqa: SLF001
        self.drop_last = False


class _Batches:
    """An iterator over a loader's batches, in this process."""

    def __init__(self, loader: Any, values: HostValues, watch: Watch) -> None:
        self._values = values
        self._watch = watch
        self._batches = _fetched(loader)
        self._length = _length(loader)
        self._steps: list[_Step] = []
        self._asked = 0

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("This loader has no length.")
        return self._length

    def __next__(self) -> Any:
        if self._repeats():
            total = "" if self._length is None else f" of {self._length:,}"
            self._values.assume(
                f"a loop over a data loader was ended after {self._asked}{total} batches: the last"
                f" {ENOUGH} needed the same.",
                "No effect, if all others are like those.",
            )
            raise StopIteration
        batch = next(self._batches)
        self._asked += 1
        self._steps.append(_Step(*self._figures(), _shapes(batch)))
        return batch

    def _figures(self) -> tuple[_Figures, _Figures]:
        """Live and most, of the GPUs if there are any: the host's data come and go."""
        live, peak = self._watch.live_bytes, self._watch.peak_bytes
        devices = sorted(set(live) - {"cpu"}) or sorted(live)
        return (
            tuple((device, live[device]) for device in devices),
            tuple((device, peak.get(device, 0)) for device in devices),
        )

    def _repeats(self) -> bool:
        """Whether the last batches were alike, left the same behind, and raised no peak."""
        left = None if self._length is None else self._length - self._asked
        if len(self._steps) <= ENOUGH or (left is not None and left <= ENOUGH):
            return False
        last = self._steps[-ENOUGH:]
        alike = {(step.live, step.peak, step.shapes) for step in last}
        return len(alike) == 1 and (last[-1].live, last[-1].peak) == self._figures()


def _fetched(loader: Any) -> Iterator[Any]:
    sampler, dataset = loader._index_sampler, loader.dataset  # noqa: SLF001
    is_iterable = getattr(loader, "is_iterable", isinstance(dataset, data.IterableDataset))
    if not is_iterable:
        for index in sampler:
            if isinstance(index, (list, tuple)):
                fetch = getattr(dataset, "__getitems__", None)
                items = fetch(index) if fetch else [dataset[one] for one in index]
            else:
                items = dataset[index]
            yield loader.collate_fn(items)
        return
    source = iter(dataset)
    for index in sampler:
        if not isinstance(index, (list, tuple)):
            try:
                yield loader.collate_fn(next(source))
            except StopIteration:
                return
            continue
        items = list(islice(source, len(index)))
        if not items or (loader.drop_last and len(items) < len(index)):
            return
        yield loader.collate_fn(items)


def _length(loader: Any) -> int | None:
    try:
        return len(loader._index_sampler)  # noqa: SLF001
    except TypeError:
        return None


def _shapes(batch: Any) -> tuple[Any, ...]:
    if isinstance(batch, torch.Tensor):
        return (tuple(batch.shape), batch.dtype)
    if isinstance(batch, dict):
        return tuple((key, _shapes(value)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        return tuple(_shapes(value) for value in batch)
    return (type(batch).__name__,)
