"""Random operators run again from what they drew, instead of drawing once more.

A checkpoint takes the generator's state before its region and brings it back before running the region again.  While a
program is traced nothing is drawn, so the generator is free to say where the program is: its seed counts the draws.
Must not know: graphs' phases, who runs operators again.
"""

from __future__ import annotations

import itertools
import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from aotgrad.torch_versions import OpOverload, aten, compute_elementwise_output_logical_to_physical_perm


def dropout_scale(probability: float) -> float:
    """What dropout multiplies the values by that it keeps."""
    return 0.0 if probability == 1 else 1.0 / (1.0 - probability)


def is_dropout_mask(node: fx.Node) -> bool:
    """Is this what a `native_dropout` drew?"""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, fx.Node) and source.target is aten.native_dropout.default and node.args[1] == 1


def dropout_from_mask(graph: fx.Graph, node: fx.Node, mask: fx.Node) -> None:
    """The values of a `native_dropout` are computed from its mask."""
    for item in [user for user in node.users if user.args[1] == 0]:
        with graph.inserting_before(item):
            values = graph.call_function(
                aten.native_dropout_backward.default, (node.args[0], mask, dropout_scale(float(node.args[1])))
            )
        values.meta = dict(item.meta)
        item.replace_all_uses_with(values)


def in_memory_order(tensor: torch.Tensor, probability: float, **options: Any) -> torch.Tensor:
    """What `bernoulli_` draws: torch's functional operator for it draws as if the tensor were contiguous."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(tensor)
    drawn = aten.bernoulli.p(tensor.permute(order).contiguous(), probability, **options)
    return drawn.permute([order.index(dimension) for dimension in range(len(order))])


# Seeds that nobody would choose, a range of them for each trace.
_ranges = itertools.count(0x6A09E667F3BC0000, 1 << 24)
# There is one default generator: two threads cannot count with it at once.
_counting = threading.RLock()


class Draws:
    """The random draws of one trace, in their order."""

    def __init__(self) -> None:
        self._first = next(_ranges)
        self._made: list[tuple[OpOverload, Any]] = []
        self._outside: torch.Tensor | None = None

    @contextmanager
    def counted(self) -> Iterator[None]:
        """The default generator counts; in the end it is as it was, or as the program has seeded it."""
        with _counting:
            self._mark(0)
            try:
                yield
            finally:
                if self._place() is not None and self._outside is not None:
                    torch.default_generator.set_state(self._outside)

    def made(self, func: OpOverload, result: Any) -> None:
        """`func` has drawn `result`."""
        self._made.append((func, result))
        self._mark(len(self._made))

    def is_new(self) -> bool:
        """Is the program at a place where it has not drawn yet?  So it is, too, after it has seeded the generator."""
        return self._place() in (None, len(self._made))

    def repeat(self, func: OpOverload) -> Any:
        """What `func` drew when the program was here before."""
        place = self._place()
        if place is None or self._made[place][0] is not func:
            raise Unsupported(f"{func} draws after the generator was set to another state", "run it eagerly")
        self._mark(place + 1)
        return self._made[place][1]

    def _mark(self, place: int) -> None:
        if self._place() is None:
            self._outside = torch.default_generator.get_state()
        torch.default_generator.manual_seed(self._first + place)

    def _place(self) -> int | None:
        place = torch.default_generator.initial_seed() - self._first
        return place if 0 <= place <= len(self._made) else None
