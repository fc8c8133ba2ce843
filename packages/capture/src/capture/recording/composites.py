"""Operators that torch makes of others, in inference mode: there they come to a fake tensor mode whole.

Elsewhere autograd has taken them apart by then.  In a mode, torch has all switched off that comes before modes,
autocast and the account of views among it: parts that run there are not cast, and what they give is no view.
Must not know: what is recorded of an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Protocol, Self

import torch

from capture.torch_versions import (
    DispatchKey,
    ForceDispatchKeyGuard,
    OpOverload,
    dispatch_tls_local_exclude_set,
    dispatch_tls_local_include_set,
)

_KNOWN = bool(ForceDispatchKeyGuard and dispatch_tls_local_include_set and dispatch_tls_local_exclude_set)


class _Keys(Protocol):
    """A set of torch's dispatch keys."""

    def add(self, key: object, /) -> Self: ...


class Composites:
    """The dispatch keys that were excluded where a mode was entered, of each entry that lasts; None outside of
    inference mode."""

    def __init__(self) -> None:
        self._entries: list[_Keys | None] = []

    def entered(self) -> None:
        known = _KNOWN and torch.is_inference_mode_enabled()
        self._entries.append(dispatch_tls_local_exclude_set() if known else None)

    def left(self) -> None:
        self._entries.pop()

    def parts(self, func: OpOverload) -> Callable[..., object] | None:
        """The function that runs what an operator is made of; None for one that is to run as it comes."""
        off = self._entries[-1] if self._entries else None
        if off is None or not torch.is_inference_mode_enabled() or not _is_composite(func):
            return None
        # Autocast has cast its operands where it knows it, and is off for its parts.
        for key in _casts(func):
            off = off.add(key)
        return lambda mode, args, kwargs: _apart(mode, off, func, args, kwargs)


def _apart(
    mode: AbstractContextManager[object],
    off: object,
    func: OpOverload,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    with ForceDispatchKeyGuard(dispatch_tls_local_include_set(), off), mode:
        return func.decompose(*args, **kwargs)


@cache
def _is_composite(func: OpOverload) -> bool:
    return isinstance(func, OpOverload) and func.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)


@cache
def _casts(func: OpOverload) -> tuple[object, ...]:
    """The keys of autocast that know an operator."""
    keys = (key for name, key in DispatchKey.__members__.items() if name.startswith("Autocast"))
    return tuple(key for key in keys if func.has_kernel_for_dispatch_key(key))
