"""Compiled code runs as it is written: what a compiler would fuse is not known without it."""

from __future__ import annotations

from typing import Any

import torch

from jupyter_vram.dry_run.host_values import HostValues

_EFFECT = "Compiled, it needs about as much or less."


def install(values: HostValues) -> None:
    """``torch.compile`` returns what it is given; what was compiled before runs uncompiled."""

    def compile_nothing(model: Any = None, **options: Any) -> Any:
        values.assume("torch.compile() was left out: the code runs as it is written.", _EFFECT)
        if model is None:
            return lambda function: compile_nothing(function, **options)
        return model

    torch.compile = compile_nothing
    module: Any = torch.nn.Module
    module.compile = lambda self, *_, **__: compile_nothing(self) and None
    stance = getattr(torch.compiler, "set_stance", None)
    if stance is not None:
        stance("force_eager")
