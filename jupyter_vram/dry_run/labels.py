"""Where each meta storage would lie: on a GPU, or in the host's memory."""

from __future__ import annotations

from typing import Any

import torch

META = torch.device("meta")
CPU = torch.device("cpu")

native_device: Any = torch._C.TensorBase.device.__get__  # noqa: SLF001
"""``tensor.device`` as torch has it, whatever `tensors` makes of it."""


class Labels:
    """Storage → device. A storage without a label is what it is: meta, and counts nowhere."""

    def __init__(self) -> None:
        self.of_storage: dict[int, torch.device] = {}
        """Address of the storage (``_cdata``) → where it would lie."""
        self.in_kernel = 0
        """While torch's own meta kernels run, which ask for devices too, they see ``meta``."""

    def device(self, tensor: torch.Tensor) -> torch.device:
        """Where a tensor would be: what ``tensor.device`` says to the user's code."""
        native: torch.device = native_device(tensor)
        if self.in_kernel or native.type != "meta":
            return native
        return self.of_storage.get(tensor.untyped_storage()._cdata, META)  # noqa: SLF001
