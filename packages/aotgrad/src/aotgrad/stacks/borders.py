"""Borders: the places in a stretch where one layer ends and the next begins, chosen so that little crosses and no
fusion is lost.

Must not know: how parts are traced.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.stacks.modes import Modes
from aotgrad.stacks.stretches import Stretch
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import version_of

_CONVOLUTIONS = frozenset(f"conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3))
_OF_LIBRARIES = _CONVOLUTIONS | {
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "bilinear", "scaled_dot_product_attention",
    "embedding", "multi_head_attention_forward", "checkpoint",
}  # fmt: skip
"""Library calls, which no kernel is fused with: their operands and results are in memory anyway."""


class Crossing:
    """The values that cross a border, and the cost of that."""

    def __init__(self, nodes: Sequence[fx.Node], places: Mapping[fx.Node, int]) -> None:
        self._nodes = nodes
        self._places = places
        self._versions: dict[int, tuple[int, int]] = {}  # of each value, the last that is told, and where
        for place, node in enumerate(nodes):
            value, version = node.meta.get("example_value"), node.meta.get("version")
            if version is not None and version > self._versions.get(id(value), (-1, 0))[0]:
                self._versions[id(value)] = version, place

    def values(self, border: int, first: int) -> list[fx.Node]:
        """The values made from `first` on and read from `border` on."""
        return [node for node in self._nodes[first:border] if any(self._place(user) >= border for user in node.users)]

    def cost(self, border: int, period: int, *, trains: bool) -> tuple[int, ...] | None:
        """The cost of a border; None where something crosses that no part can be given.  Where a gradient comes back,
        each value more is one more to write; otherwise values count that a kernel would have kept in registers."""
        crossing = self.values(border, border - period)
        if not all(self.can_be_given(node, border) for node in crossing):
            return None
        read = self._read_by_kernels(border, period)
        joined = sum(bytes_of(node) for node in crossing if node in read and not _is_of_library(node))
        return (len(crossing), joined) if trains else (joined, len(crossing))

    def can_be_given(self, node: fx.Node, place: int) -> bool:
        """True if a part that begins there can be given the node's value, and sees it as the whole graph would.

        Not a value that autograd follows and that is written later, that torch negates or conjugates lazily, or whose
        layout varies with its sizes in an order of its own.
        """
        value = node.meta.get("example_value")
        if not isinstance(value, torch.Tensor):
            return isinstance(value, (torch.SymInt, torch.SymFloat))
        if value.requires_grad:
            version, written = self._versions.get(id(value), (-1, 0))
            if version != version_of(value) or written >= place:
                return False
        if value.layout is not torch.strided or value.dtype.is_complex or value.is_neg():
            return False
        return has_fixed_layout(value) or value.is_contiguous()

    def _read_by_kernels(self, border: int, period: int) -> set[fx.Node]:
        """The values that one kernel could compute before the border and use behind it, with no library call on the
        way."""
        read: set[fx.Node] = set()
        behind: set[fx.Node] = set()  # calls of libraries, and what comes of them
        for step in self._nodes[border : border + period]:
            given = step.all_input_nodes
            if _is_of_library(step) or not behind.isdisjoint(given):
                behind.add(step)
            else:
                read.update(given)
        return read

    def _place(self, node: fx.Node) -> int:
        return self._places.get(node, len(self._nodes))


def best_border(crossing: Crossing, stretch: Stretch, modes: Sequence[Modes]) -> Stretch | None:
    """The stretch divided where a border costs least; each layer leaves the modes as it finds them, and leaves what it
    enters."""
    costs: dict[int, tuple[int, ...]] = {}
    for by in range(stretch.period):
        border = stretch.start + by + stretch.period
        here = modes[border]
        alike = here == modes[border - stretch.period] and not here.entered
        found = crossing.cost(border, stretch.period, trains=here.grad) if alike else None
        if found is not None:
            costs[by] = (*found, stretch.times - stretch.shifted(by).times, by)
            if not any(costs[by]):
                break  # nothing crosses, as between updates of parameters
    return stretch.shifted(min(costs, key=costs.__getitem__)) if costs else None


def has_fixed_layout(value: torch.Tensor) -> bool:
    return all(type(each) is int for each in (*value.shape, *value.stride()))


def bytes_of(node: fx.Node) -> int:
    value: Any = node.meta["example_value"]
    if not isinstance(value, torch.Tensor):
        return 0
    size = value.element_size()
    for each in value.shape:
        size *= size_hint(each)
    return int(size)


def convolves(node: fx.Node) -> bool:
    return _name(node) in _CONVOLUTIONS


def _is_of_library(node: fx.Node) -> bool:
    return node.target is operator.matmul or _name(node) in _OF_LIBRARIES


def _name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
