"""Operands before and behind any lowering: elements that it leaves out are checked all the same, and what it gives back
as it was is copied where eager makes a new tensor.

Must not know: what any operator computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from inductor.deps import nodes
from inductor.ir.expr import CHECKS, Apply, Const, Expr, Load, has_checks, loads, walk
from inductor.ir.graph import Nest, Operation
from inductor.ir.program import Call
from inductor.lowerings.context import Context
from inductor.lowerings.sizes import numel
from inductor.lowerings.values import Tensor
from inductor.torch_versions import OpOverload, aten, pytree

PICKS = frozenset((
    aten.slice.Tensor, aten.select.int, aten.narrow.default, aten.split.Tensor, aten.split_with_sizes.default,
    aten.unbind.int, aten.diagonal.default, aten.unfold.default, aten.constant_pad_nd.default, aten.as_strided.default,
    aten.avg_pool2d.default, aten.max_pool2d_with_indices.default, aten.upsample_nearest2d.default,
))  # fmt: skip
"""Operators that may leave out elements of what they are given."""


_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class Checks:
    """The checks that values without memory make wherever they are computed, each with the first value that makes it.
    A check that no operation has got in the end is made up for: whoever reads the value does so for its shape alone."""

    ctx: Context
    waiting: dict[_Key, Tensor] = field(default_factory=dict)

    def note(self, value: object) -> None:
        """Takes down the checks of a value, or of each of several."""
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, Tensor) and part.base is None and has_checks(part.expr):
                for key in _keys(walk(part.expr)):
                    self.waiting.setdefault(key, part)

    def make_up(self, written: str | None = None) -> None:
        """Computes the values whose checks no operation makes so far; only those that read what is about to be
        ``written``, where that is given."""
        values = {key: value for key, value in self.waiting.items() if written is None or _reads(value, written)}
        if not values:
            return
        made = {key for each in self.ctx.operations if isinstance(each, Nest) for key in _keys(nodes(each.loops))}
        for key, value in values.items():
            if key not in made:
                self.ctx.realize(value)
            del self.waiting[key]


def _keys(found: Iterator[Expr]) -> Iterator[_Key]:
    """For each check what it asks of how many elements of what: the same for all orders in which they are read."""
    for node in found:
        if isinstance(node, Apply) and node.op in CHECKS:
            yield tuple(_asked(each) for each in walk(node))


def _asked(node: Expr) -> object:
    if isinstance(node, Load):
        axes = [symbol for symbol in node.index.symbols if symbol.size is not None]
        count = numel(symbol.size for symbol in axes if symbol.size is not None)
        return node.buffer, count, node.index.subs(dict.fromkeys(axes, 0))
    return node if isinstance(node, Const) else (type(node).__name__, getattr(node, "op", ""))


def _reads(value: Tensor, buffer: str) -> bool:
    return any(read.buffer == buffer for read in loads(value.expr))


def with_what_is_left_out(ctx: Context, target: OpOverload, args: Sequence[object]) -> Sequence[object]:
    """The arguments with the first one computed whole, where that may raise and the operator leaves elements out:
    those are checked too."""
    if target not in PICKS:
        return args
    whole, *others = args
    if not isinstance(whole, Tensor) or not has_checks(whole.expr):
        return args
    return (ctx.realize(whole), *others)


def made_anew(ctx: Context, given: object, result: object, last: Sequence[Operation]) -> object:
    """The result of an operator that gives no views: an operand that nothing is to be done with is copied, as in eager,
    unless the lowering emitted what makes it now.  ``last`` was the last operation before."""
    leaves = pytree.tree_leaves(given, is_leaf=_is_tensor)
    bases = {leaf.base for leaf in leaves if isinstance(leaf, Tensor)} - {None}
    if ctx.operations[-1:] != last and isinstance(made := ctx.operations[-1], Call):
        bases -= {output.name for output in made.outputs if output is not None}

    def anew(value: object) -> object:
        return replace(value, base=None) if isinstance(value, Tensor) and value.base in bases else value

    return [anew(value) for value in result] if isinstance(result, list) else anew(result)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)
