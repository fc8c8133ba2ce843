"""The table of lowerings: operator to small function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import torch

OpOverload: TypeAlias = "torch._ops.OpOverload"
Lowering: TypeAlias = Callable[..., Any]
"""``(ctx, *args, **kwargs)`` with ``Tensor`` for tensors and ``Index`` for symbolic sizes; returns a Tensor, several,
or ``Declined``."""

LOWERINGS: dict[OpOverload, Lowering] = {}
"""Operator to lowering; filled by ``lowering`` and by the data rows of the families."""

OF_ANY_SIZE: set[OpOverload] = set()
"""Operators whose lowerings are right for data-dependent sizes and positions: the rest is left to torch's
kernels then, which look at the numbers when they get them."""

LIBRARY: set[OpOverload] = set()
"""Operators that libraries do best: a call of them is no fallback."""

_F = TypeVar("_F", bound=Lowering)


@dataclass(frozen=True, slots=True)
class Declined:
    """The answer of a lowering that leaves a case to eager's kernel, with the reason."""

    reason: str


def lowering(*overloads: OpOverload, of_any_size: bool = False) -> Callable[[_F], _F]:
    """Registers a function as the lowering of the operators."""

    def register(function: _F) -> _F:
        for overload in overloads:
            # Two meanings of one operator would depend on the order of imports.
            if overload in LOWERINGS:
                raise ValueError(f"{overload} has a lowering already")
            LOWERINGS[overload] = function
        OF_ANY_SIZE.update(overloads if of_any_size else ())
        return function

    return register
