"""Bytes that operations take while they run, beside their outputs.

On the CPU, oneDNN reorders what a convolution reads and writes to blocked layouts; seen with
torch's profiler on torch 2.13 (x86-64): forward, a copy of input and weight and the output twice;
backward, copies of the output's gradient and of the input while the input's gradient is there.
Convolutions of 1 × 1 are products of matrices as they are. What cuDNN takes on a GPU is not known
without one: see `jupyter_vram.model.overheads.cudnn`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from jupyter_vram.dry_run.mode import Scratch

_aten = torch.ops.aten


def _convolution(
    args: Sequence[Any], options: Mapping[str, Any], result: Any, device: torch.device
) -> int:
    del options
    source, weight = args[0], args[1]
    if device.type != "cpu" or _is_pointwise(weight):
        return 0
    return max(_nbytes(source) + _nbytes(weight), _nbytes(result))


def _convolution_backward(
    args: Sequence[Any], options: Mapping[str, Any], result: Any, device: torch.device
) -> int:
    del options, result
    gradient, source, weight = args[:3]
    if device.type != "cpu" or _is_pointwise(weight):
        return 0
    return _nbytes(gradient) + _nbytes(source)


def _is_pointwise(weight: torch.Tensor) -> bool:
    return all(size == 1 for size in weight.shape[2:])


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.itemsize


TABLE: dict[OpOverload, Scratch] = {
    _aten.convolution.default: _convolution,
    _aten.convolution_backward.default: _convolution_backward,
}
"""Operation → what it takes."""
