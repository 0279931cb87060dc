"""What CUDA (and the CPU) does otherwise than torch's meta kernels: composites that choose their
parts by device.

Registered in the child's dispatcher, for good.
"""

from __future__ import annotations

from typing import Any

import torch

from jupyter_vram.dry_run.labels import Labels

_aten: Any = torch.ops.aten
_library: list[torch.library.Library] = []
"""A registration lasts as long as its library."""

_FLASH_TYPES = (torch.float16, torch.bfloat16)


def install(labels: Labels) -> dict[Any, Any]:
    """Register; returns what the dispatch mode must do itself, for tensors that autograd does not
    see (inference mode)."""
    library = torch.library.Library("aten", "IMPL")
    _library.append(library)

    def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: A002
        if not train or p == 0 or not input.numel():
            return input
        if labels.device(input).type == "cuda" and p < 1:
            # One operation, whose mask takes a byte per element.
            masked: torch.Tensor = torch.native_dropout(input, p, True)[0]
            return masked
        # aten/src/ATen/native/Dropout.cpp, _dropout_impl
        noise = torch.empty_like(input).bernoulli_(1 - p)
        if p < 1:
            noise.div_(1 - p)
        return input * noise

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        out: torch.Tensor
        if labels.device(query).type != "cuda":
            # aten/src/ATen/native/transformers/sdp_utils_cpp.cpp, use_flash_attention_cpp
            masked = attn_mask is not None and attn_mask.requires_grad
            if dropout_p == 0 and query.dim() == 4 and query.is_floating_point() and not masked:
                out = _aten._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001
                    query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
                )[0]
                return out
            form = {"scale": scale, "enable_gqa": enable_gqa}
            out = _aten._scaled_dot_product_attention_math(  # noqa: SLF001
                query, key, value, attn_mask, dropout_p, is_causal, None, **form
            )[0]
            return out
        if enable_gqa and query.shape[-3] != key.shape[-3]:
            groups = query.shape[-3] // key.shape[-3]
            key = key.repeat_interleave(groups, -3)
            value = value.repeat_interleave(groups, -3)
        if attn_mask is None and query.dtype in _FLASH_TYPES:
            out = _aten._scaled_dot_product_flash_attention(  # noqa: SLF001
                query, key, value, dropout_p, is_causal, False, scale=scale
            )[0]
            return out
        if attn_mask is not None:
            if attn_mask.dtype == torch.bool:
                bias = torch.zeros(attn_mask.shape, dtype=query.dtype, device=query.device)
                attn_mask = bias.masked_fill(attn_mask.logical_not(), float("-inf"))
            attn_mask = attn_mask.expand(
                query.shape[0], query.shape[1], query.shape[2], key.shape[2]
            )
        keeps = torch.is_grad_enabled()
        out = _aten._scaled_dot_product_efficient_attention(  # noqa: SLF001
            query, key, value, attn_mask, keeps, dropout_p, is_causal, scale=scale
        )[0]
        return out

    def activation_backward(grad: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
        # One kernel on the CPU and on CUDA; a formula of several operations elsewhere.
        del grad
        return torch.empty_like(self)

    kernels: dict[str, Any] = {
        "silu_backward": activation_backward,
        "mish_backward": activation_backward,
        "dropout": dropout,
        "scaled_dot_product_attention": attention,
    }
    for name, kernel in kernels.items():
        library.impl(name, kernel, "AutogradMeta")
    return {
        _aten.dropout.default: lambda _, *args, **kwargs: dropout(*args, **kwargs),
        _aten.scaled_dot_product_attention.default: lambda _, *args, **kwargs: attention(
            *args, **kwargs
        ),
    }
