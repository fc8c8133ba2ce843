"""The tensors that a call is given to write its results to, and what torch says of operators that write.

They are `out=`, and what operators of ATen have by other names.

Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch

from aotgrad.torch_versions import OpOverload, OpOverloadPacket, schema_of

Args: TypeAlias = Sequence[Any]
Named: TypeAlias = dict[str, Any]
"""The operands of a call, by position and by name."""

Outs: TypeAlias = Named
"""Tensors, or sequences of them, by the names of what they are given for."""


def outs_of(func: object, kwargs: Mapping[str, object]) -> Outs:
    """The tensors, or the sequences of them, that a call is given to write its results to, by name."""
    names = _names_of_outs(func) if isinstance(func, (OpOverload, OpOverloadPacket)) else ("out",)
    return {name: kwargs[name] for name in names if kwargs.get(name) is not None}


@cache
def _names_of_outs(func: OpOverload | OpOverloadPacket) -> frozenset[str]:
    if isinstance(func, OpOverloadPacket):
        return frozenset().union(*(_names_of_outs(getattr(func, name)) for name in func.overloads()))
    return frozenset(argument.name for argument in schema_of(func).arguments if argument.is_out)


def flat(outs: Outs) -> list[torch.Tensor]:
    """All tensors that are written to, one after another."""
    several = ([value] if isinstance(value, torch.Tensor) else value for value in outs.values())
    return [each for one in several for each in one]


@cache
def is_pointwise(name: str) -> bool:
    """True if an operator of that name computes each element of its result from those at the same place."""
    packet = getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return name == "copy_" or any(torch.Tag.pointwise in overload.tags for overload in overloads)
