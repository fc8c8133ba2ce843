"""Gradients in forward mode, ``torch.autograd.forward_ad``: CPython runs the program wherever a level of them is open.

Tensors carry such gradients along unseen, and kernels that are not torch's own would drop them.
"""

from __future__ import annotations

import torch
import torch.autograd.forward_ad

from capture.guards.guard import Guard
from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource

_LEVEL = AttrSource(ConstSource(torch.autograd.forward_ad, "torch.autograd.forward_ad"), "_current_level")
_CLOSED = -1


def is_open() -> bool:
    """True if a level of forward-mode gradients is open."""
    return bool(getattr(torch.autograd.forward_ad, _LEVEL.name, _CLOSED) != _CLOSED)


def closed() -> list[Guard]:
    """The guard that none is open, on which all code relies."""
    if not hasattr(torch.autograd.forward_ad, _LEVEL.name):
        return []
    return [Guard(_LEVEL, GuardKind.EQUALS, (_CLOSED,), None, "no level of forward-mode gradients is open")]
