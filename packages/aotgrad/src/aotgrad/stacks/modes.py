"""Modes that nodes of a graph enter and leave, as they are in force at each place of it.

Must not know: stretches, parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotgrad.torch_versions import set_grad_enabled

_autocast, _inference = torch.amp.autocast_mode, torch.autograd.grad_mode
_ENTERS = (_autocast._enter_autocast, _inference._enter_inference_mode)
_LEAVES = (_autocast._exit_autocast, _inference._exit_inference_mode)


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes at one place: whether autograd follows, and the nodes by which the graph is within autocast or
    inference mode."""

    grad: bool
    entered: tuple[fx.Node, ...] = ()


def modes_at(nodes: Sequence[fx.Node]) -> list[Modes]:
    """The modes ahead of each node, and at the end."""
    here = Modes(torch.is_grad_enabled())
    found = [here]
    for node in nodes:
        target: Any = node.target
        if target in _ENTERS:
            here = Modes(here.grad, (*here.entered, node))
        elif target in _LEAVES:
            here = Modes(here.grad, here.entered[:-1])
        elif sets_grad(node):
            here = Modes(bool(node.args[0]), here.entered)
        found.append(here)
    return found


def sets_grad(node: fx.Node) -> bool:
    return node.target is set_grad_enabled
