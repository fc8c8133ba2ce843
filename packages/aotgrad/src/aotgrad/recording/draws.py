"""Random draws of a traced program: operators run again by a checkpoint get what they drew before.

A checkpoint takes the generator's state before its region and brings it back before running the region again.  While a
program is traced nothing is drawn, so the thread that traces is told another generator's state, which says where the
program is: its seed counts the draws.  `traced_generator` tells it.
Must not know: graphs' phases, who runs operators again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from aotgrad.state import STATE
from aotgrad.torch_versions import OpOverload, aten, compute_elementwise_output_logical_to_physical_perm


def dropout_scale(probability: float) -> float:
    """The factor by which dropout multiplies the values that it keeps."""
    return 0.0 if probability == 1 else 1.0 / (1.0 - probability)


_FROM = getattr(aten.random, "from")


def all_dropped(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The result of dropout that keeps nothing, and its mask.

    Eager draws nothing for it; torch's rule in Python, taken where sizes are dynamic, asks for the operator that does.
    """
    return tensor * tensor.new_zeros(()), torch.zeros_like(tensor, dtype=torch.bool)


def is_dropout_mask(node: fx.Node) -> bool:
    """True for the mask that a `native_dropout` drew."""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, fx.Node) and source.target is aten.native_dropout.default and node.args[1] == 1


def dropout_from_mask(graph: fx.Graph, node: fx.Node, mask: fx.Node) -> None:
    """Has the values of a `native_dropout` computed from its mask."""
    for item in [user for user in node.users if user.args[1] == 0]:
        with graph.inserting_before(item):
            values = graph.call_function(
                aten.native_dropout_backward.default, (node.args[0], mask, dropout_scale(float(node.args[1])))
            )
        values.meta = dict(item.meta)
        item.replace_all_uses_with(values)


def printable(func: OpOverload, args: Sequence[object]) -> OpOverload:
    """The operator under a name that a graph can be printed with: `random.from` is no Python."""
    if func is not _FROM:
        return func
    if len(args) < 3 or args[2] is None:
        raise Unsupported("`random_` is given where to begin and not where to end", "give it both")
    return aten.randint_like.low_dtype


def in_memory_order(tensor: torch.Tensor, probability: float, **options: object) -> torch.Tensor:
    """The numbers of `bernoulli_`, which draws in memory order: torch's functional operator for it draws as if the
    tensor were contiguous."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(tensor)
    drawn = aten.bernoulli.p(tensor.permute(order).contiguous(), probability, **options)
    return drawn.permute([order.index(dimension) for dimension in range(len(order))])


class Draws:
    """The random draws of one trace, in their order, counted by the seed of a generator that the program sees."""

    def __init__(self) -> None:
        self._first = next(STATE.seeds)
        self._made: list[tuple[OpOverload, Any]] = []
        self._places = torch.Generator()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Has this thread see positions in the order of draws as states of the default generator."""
        self._mark(0)
        with STATE.generator.answered_by(self):
            yield

    def made(self, func: OpOverload, result: Any) -> None:
        """Notes that `func` has drawn `result`."""
        self._made.append((func, result))
        self._mark(len(self._made))

    def is_new(self) -> bool:
        """True if the program has not drawn at this position yet, and after it has seeded the generator."""
        return self._place() in (None, len(self._made))

    def repeat(self, func: OpOverload) -> Any:
        """The result that `func` drew when the program was here before."""
        place = self._place()
        if place is None or self._made[place][0] is not func:
            raise Unsupported(f"{func} draws after the generator was set to another state", "run it eagerly")
        self._mark(place + 1)
        return self._made[place][1]

    def state(self) -> torch.Tensor:
        """The state that the program sees of the default generator."""
        return (torch.default_generator if self._place() is None else self._places).get_state()

    def go_to(self, state: torch.Tensor) -> None:
        """Sets the state: to a position, or to a state of the real generator."""
        self._places.set_state(state)
        if self._place() is None:
            torch.default_generator.set_state(state)

    def leave(self) -> None:
        """Leaves the positions, as the program seeds the generator itself."""
        self._places.manual_seed(0)

    def _mark(self, place: int) -> None:
        self._places.manual_seed(self._first + place)

    def _place(self) -> int | None:
        place = self._places.initial_seed() - self._first
        return place if 0 <= place <= len(self._made) else None
