"""Operators that capture adds to torch's: defined when one is first asked for, each once, in one place under one lock.

A definition may ask for another one's operator.  Importing capture defines none: few programs need one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch

from capture import state
from capture.torch_versions import OpOverloadPacket


def operator_for(key: Hashable, define: Callable[[], str]) -> OpOverloadPacket:
    """The operator that ``define`` defines and gives the name of, for whoever asks with the same key."""
    known = state.PROCESS.operators.get(key)
    if known is not None:
        return known
    # Two threads may ask at once, and torch refuses to define a name twice.
    with state.PROCESS.defining_operators:
        defined = state.PROCESS.operators
        if key not in defined:
            namespace, name = define().split("::")
            defined[key] = getattr(getattr(torch.ops, namespace), name)
        return defined[key]


def install(
    name: str,
    schema: str,
    computes: Callable[..., object],
    fake_kernel: Callable[..., object],
    *,
    tags: Sequence[object] = (),
) -> None:
    """Tell torch of an operator: ``fake_kernel`` is what it gives on fake tensors."""
    torch.library.define(name, schema, tags=tuple(tags))
    torch.library.impl(name, "CompositeExplicitAutograd", computes)
    torch.library.register_fake(name, fake_kernel)


def without_gradient(name: str) -> None:
    """Says that the results of the operator have no history."""
    torch.library.impl(name, "Autograd", torch.library.fallthrough_kernel)
