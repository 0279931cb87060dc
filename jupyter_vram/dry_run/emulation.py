"""Sets up the child process: from here on, torch behaves as on the stated GPU, with no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from jupyter_vram.dry_run import autocast, compilers, cuda_api, kernels, loaders, scratch, tensors
from jupyter_vram.dry_run.host_values import HostValues
from jupyter_vram.dry_run.labels import Labels
from jupyter_vram.dry_run.mode import DryRunMode
from jupyter_vram.dry_run.swaps import Swaps
from jupyter_vram.dry_run.watch import Watch
from jupyter_vram.model.gpus import Gpu


@dataclass(frozen=True, slots=True)
class Emulation:
    """All that is on."""

    labels: Labels
    watch: Watch
    values: HostValues
    mode: DryRunMode


def install(
    gpu: Gpu | None,
    *,
    on_gpu: bool,
    where: Callable[[], str],
    arrived: Iterable[tuple[torch.UntypedStorage, str]] = (),
) -> Emulation:
    """Install everything, for good.

    Args:
        gpu: which GPU ``torch.cuda`` tells of; ``None``: there is none.
        on_gpu: count what the code has on the CPU as if it were on the GPU.
        where: names the user's line that runs, for assumptions.
        arrived: storages of meta tensors that are there already, and their devices.
    """
    labels = Labels()
    watch = Watch(labels)
    values = HostValues(where)
    home = torch.device("cuda", 0) if on_gpu else None
    mode = DryRunMode(
        labels,
        watch,
        home=home,
        overrides=kernels.install(labels),
        scratch=scratch.TABLE,
        unknown=values.unknown,
    )
    values.known = mode.known.of
    for storage, device in arrived:
        watch.add(storage, mode.place(torch.device(device)))
    Swaps(labels, watch, home).swap_all()
    if gpu is not None:
        cuda_api.install(gpu, watch)
    autocast.install(labels, home)
    tensors.install(labels, mode, values)
    loaders.install(values, watch)
    compilers.install(values)
    return Emulation(labels, watch, values, mode)
