"""Modes that nodes of a graph enter and leave, as they are in force at each place of it.

Must not know: stretches, parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    """The modes ahead of each node, and at the end.

    Autograd does not follow within inference mode, whose end puts back what was in force before.
    """
    here = Modes(torch.is_grad_enabled())
    found, before = [here], dict[object, bool]()
    for node in nodes:
        target: Any = node.target
        if target in _ENTERS:
            before[node] = here.grad
            is_inference = target is _inference._enter_inference_mode
            here = Modes(not node.args[0] if is_inference else here.grad, (*here.entered, node))
        elif target in _LEAVES:
            is_inference = target is _inference._exit_inference_mode
            here = Modes(before[node.args[0]] if is_inference else here.grad, here.entered[:-1])
        elif sets_grad(node):
            here = Modes(bool(node.args[0]), here.entered)
        found.append(here)
    return found


def come_back(modes: Sequence[Modes]) -> bool:
    """True if the graph leaves all that it enters, and sets within none whether autograd follows behind it."""
    regions: list[bool] = []
    for one, other in pairwise(modes):
        if len(other.entered) > len(one.entered):
            regions.append(one.grad)
        elif len(other.entered) < len(one.entered) and regions.pop() is not other.grad:
            return False
    return not regions


def sets_grad(node: fx.Node) -> bool:
    return node.target is set_grad_enabled
