"""Operands before and behind any lowering: elements that it leaves out are checked all the same, and what it gives back
as it was is copied where eager makes a new tensor.

Must not know: what any operator computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inductor.ir.expr import has_checks
from inductor.ir.graph import Operation
from inductor.ir.program import Call
from inductor.lowerings.context import Context
from inductor.lowerings.values import Tensor
from inductor.torch_versions import OpOverload, aten, pytree

PICKS = frozenset((
    aten.slice.Tensor, aten.select.int, aten.narrow.default, aten.split.Tensor, aten.split_with_sizes.default,
    aten.unbind.int, aten.diagonal.default, aten.unfold.default, aten.constant_pad_nd.default, aten.as_strided.default,
    aten.avg_pool2d.default, aten.max_pool2d_with_indices.default, aten.upsample_nearest2d.default,
))  # fmt: skip
"""Operators that may leave out elements of what they are given."""


def with_what_is_left_out(ctx: Context, target: OpOverload, args: Any) -> Any:
    """The arguments with the first one computed whole, where that may raise and the operator leaves elements out:
    those are checked too."""
    if target not in PICKS:
        return args
    whole, *others = args
    if not isinstance(whole, Tensor) or not has_checks(whole.expr):
        return args
    return (ctx.realize(whole), *others)


def made_anew(ctx: Context, given: object, result: Any, last: Sequence[Operation]) -> Any:
    """The result of an operator that gives no views: an operand that nothing is to be done with is copied, as in eager,
    unless the lowering emitted what makes it now.  ``last`` was the last operation before."""
    leaves = pytree.tree_leaves(given, is_leaf=_is_tensor)
    bases = {leaf.base for leaf in leaves if isinstance(leaf, Tensor)} - {None}
    if ctx.operations[-1:] != last and isinstance(made := ctx.operations[-1], Call):
        bases -= {output.name for output in made.outputs if output is not None}

    def anew(value: Any) -> Any:
        return replace(value, base=None) if isinstance(value, Tensor) and value.base in bases else value

    return [anew(value) for value in result] if isinstance(result, list) else anew(result)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)
