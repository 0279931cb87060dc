"""Data loaders in a dry run: batches are fetched in this process, for real."""

from __future__ import annotations

from typing import Any

from torch.utils import data

from jupyter_vram.dry_run.host_values import HostValues


def install(values: HostValues) -> None:
    """No worker processes, no pinned memory."""
    del values
    loader: Any = data.DataLoader
    single: Any = data.dataloader._SingleProcessDataLoaderIter

    def get_iterator(self: Any) -> Any:
        fields = self.__dict__
        fields["num_workers"] = 0
        fields["pin_memory"] = False
        fields["timeout"] = 0
        fields["prefetch_factor"] = None
        fields["persistent_workers"] = False
        return single(self)

    loader._get_iterator = get_iterator
