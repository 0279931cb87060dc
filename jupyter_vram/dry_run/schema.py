"""What kind of operation it is, as its schema says: what the dry run does with it."""

from __future__ import annotations

from enum import Enum, auto

import torch
from torch._ops import OpOverload


class Kind(Enum):
    """How an operation's outputs relate to its inputs."""

    NEW = auto()
    """All outputs are new tensors that depend on the inputs' shapes alone."""
    IN_PLACE = auto()
    """It writes into its first argument, and returns it."""
    WRITES = auto()
    """It writes into arguments, and returns nothing."""
    VIEW = auto()
    """An output is a view of an input, or the input."""
    OTHER = auto()
    """Whatever else: it resizes, has an ``out=``, or its output depends on values."""


_MOVES_STORAGE = ("resize_", "set_", "resize_as_", "_resize_output_")


def kind_of(func: OpOverload) -> Kind:
    """Read an operation's schema."""
    schema = func._schema  # noqa: SLF001
    writes = [
        argument
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    shares = any(returned.alias_info is not None for returned in schema.returns)
    tags = func.tags
    if torch.Tag.data_dependent_output in tags or torch.Tag.dynamic_output_shape in tags:
        return Kind.OTHER
    if writes:
        name = schema.name.rpartition("::")[2]
        if name in _MOVES_STORAGE or torch.Tag.inplace_view in tags:
            return Kind.OTHER
        if not schema.returns:
            return Kind.WRITES
        if writes == [schema.arguments[0]] and len(schema.returns) == 1 and shares:
            return Kind.IN_PLACE
        return Kind.OTHER
    return Kind.VIEW if shares else Kind.NEW
