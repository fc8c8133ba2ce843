"""Keys of nodes: equal ones compute the same, from operands and to results of the same metadata.

Must not know: which nodes follow one another.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch import fx


class Keys:
    """Numbers for nodes of one graph; graphs within it are compared by what they compute."""

    def __init__(self, root: torch.nn.Module) -> None:
        self._root = root
        self._numbers: dict[Hashable, int] = {}
        self._texts: dict[int, Hashable] = {}
        self._values: dict[int, Hashable] = {}

    def of(self, node: fx.Node) -> int:
        target = self._attribute(node) if node.op == "get_attr" else node.target
        key = (node.op, target, self._frozen(node.args), self._frozen(node.kwargs), self.value(node))
        return self._numbers.setdefault(key, len(self._numbers))

    def value(self, node: fx.Node) -> Hashable:
        """The key of a node's value, by all that tracing can see of it."""
        key = self._values.get(id(node))
        if key is None:
            key = self._values[id(node)] = value_key(node.meta.get("example_value"))
        return key

    def _attribute(self, node: fx.Node) -> Hashable:
        value: Any = self._root
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if not isinstance(value, fx.GraphModule):
            return id(value)
        if id(value) not in self._texts:
            within = Keys(value)
            order = {inner: place for place, inner in enumerate(value.graph.nodes)}
            self._texts[id(value)] = tuple(
                (within._structure(inner), tuple(order[each] for each in operands(inner))) for inner in order
            )
        return self._texts[id(value)]

    def _structure(self, node: fx.Node) -> Hashable:
        """A node of a graph within the graph, whose placeholders have names of their own."""
        if node.op == "placeholder":
            return node.op
        target = self._attribute(node) if node.op == "get_attr" else node.target
        return node.op, target, self._frozen(node.args), self._frozen(node.kwargs)

    def _frozen(self, value: object) -> Hashable:
        if isinstance(value, fx.Node):
            return "operand", self.value(value)
        if isinstance(value, (list, tuple)):
            return type(value).__name__, *map(self._frozen, value)
        if isinstance(value, dict):
            return "dict", *((name, self._frozen(each)) for name, each in value.items())
        if isinstance(value, slice):
            return "slice", *map(self._frozen, (value.start, value.stop, value.step))
        if isinstance(value, (float, complex)):
            return type(value).__name__, repr(value)  # the two zeros are two numbers
        try:
            hash(value)
        except TypeError:
            return "object", id(value)
        return type(value).__name__, value


def operands(node: fx.Node) -> list[fx.Node]:
    """The operands in the order in which they are written, each as often as it occurs: ``all_input_nodes`` has each
    once."""
    found: list[fx.Node] = []
    fx.node.map_arg((node.args, node.kwargs), found.append)
    return found


def value_key(value: object) -> Hashable:
    """The metadata of a fake tensor, a number or a tuple of these."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return "odd", id(value)
        sizes = (*numbers(value.shape), *numbers(value.stride()), *numbers([value.storage_offset()]))
        # Not whether it is a leaf: a view whose base was written is given a new history by whoever asks that.
        bits = (value.is_conj(), value.is_neg(), value.is_inference(), value.requires_grad)
        return type(value).__name__, value.dtype, value.device, value.dim(), sizes, bits
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return type(value).__name__, str(value)
    if isinstance(value, (list, tuple)):
        return "several", *map(value_key, value)
    return "plain", type(value).__name__, repr(value) if isinstance(value, (int, float, complex, str)) else id(value)


def numbers(sizes: Iterable[Any]) -> Iterable[Hashable]:
    """Sizes as they are, and those that vary by their formulas."""
    return (size if type(size) is int else str(size) for size in sizes)
