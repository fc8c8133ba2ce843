"""Attention that was written out: two batched products with a softmax between, which the library does in one call.

Softmax of scaled and masked products of queries and keys, times values, in the ways models write it.  Nothing is
changed in the graph: what is found is the last product, what it is made of, and the nodes that need not be computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, Node

from inductor.rewrites.redundant import Redundant, writes_to_operands
from inductor.torch_versions import aten

VERY_NEGATIVE = -1e8
"""The largest fill value that masks any score of a model out: the softmax makes 0 of it."""
ABSORBING = -1e30
"""The largest fill value that stays what it is whatever score is added."""
FEWEST_KEYS = 16
"""The library's kernel for CPUs loses a NaN among fewer, which fill no vector of its own."""
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Added:
    """A mask that is added to the scores; ``joined`` if batch and heads are one dimension of it, as in a product."""

    bias: Node
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Filled:
    """A mask that fills scores with a very negative number where the condition holds, or where it does not
    (``holds``)."""

    condition: Node
    holds: bool
    value: float


Mask: TypeAlias = Added | Filled


@dataclass(frozen=True, slots=True)
class Attention:
    """``softmax(scale * queries @ keys + masks) @ values``; keys are transposed, the softmax is of ``shape``."""

    queries: Node
    keys: Node
    values: Node
    shape: tuple[int, ...]
    scale: float = 1.0
    masks: tuple[Mask, ...] = ()
    inside: frozenset[Node] = frozenset()

    def scaled(self, factor: float) -> Attention | None:
        """The scores times a number; None if something was added to them before, or that is none."""
        scale = self.scale * factor
        return replace(self, scale=scale) if math.isfinite(scale) and not self.masks else None

    def operands(self) -> set[Node]:
        """The nodes that it is computed from."""
        masks = (mask.bias if isinstance(mask, Added) else mask.condition for mask in self.masks)
        return {self.queries, self.keys, self.values, *masks}

    def masked(self, mask: Mask) -> Attention:
        return replace(self, masks=(*self.masks, mask))


def find_attention(graph: Graph, redundant: Redundant) -> Mapping[Node, Attention]:
    """Every attention that the graph writes out, by its last product."""
    found: dict[Node, Attention] = {}
    places = {node: place for place, node in enumerate(graph.nodes)}
    writes = [place for node, place in places.items() if writes_to_operands(node)]
    # A node that stands for others, or is one of them, has readers that its ``users`` do not show.
    shared = {*redundant.same, *redundant.same.values()}
    for node in graph.nodes:
        if node.target is not aten.bmm.default or node in redundant.dead or node in redundant.same:
            continue
        attention = _behind(node)
        if attention is not None and shared.isdisjoint(attention.inside):
            own = {node, *attention.inside, *redundant.dead}
            # Nobody else reads scores or probabilities: they need not be there.
            read = (reader for inner in attention.inside for reader in inner.users)
            # The one call reads at the end what the first product has read: nothing may be written between them.
            first = min(places[inner] for inner in attention.inside)
            stays = not any(first < place < places[node] for place in writes)
            if stays and all(reader in own for reader in read) and _are_apart([*found.values(), attention]):
                found[node] = attention
    return found


def _are_apart(found: Sequence[Attention]) -> bool:
    """True if none reads what is computed within one of them, itself among them."""
    inside = frozenset[Node]().union(*(each.inside for each in found))
    return all(inside.isdisjoint(each.operands()) for each in found)


def _behind(product: Node) -> Attention | None:
    """The attention that ends with ``product``; None where it is none, or has sizes known only at run time."""
    if not all(isinstance(size, int) for operand in product.args for size in _shape(operand)):
        return None
    softmax, inside = _source(product.args[0], rounded=True)
    # Along the last dimension.
    if softmax.target is not aten._softmax.default or softmax.args[1] not in (-1, len(_shape(softmax)) - 1):
        return None
    shape = _shape(softmax)
    # What lies between keeps the order of the elements; that of the rows needs the same rows and columns besides.
    if len(shape) not in (3, 4) or not _has_the_rows(_shape(product.args[0]), shape) or shape[-1] < FEWEST_KEYS:
        return None
    found = _scores(softmax.args[0], shape)
    if found is None:
        return None
    values = product.args[1]
    assert isinstance(values, Node)
    dtypes = {_dtype(node) for node in (found.queries, found.keys, values)}
    if len(dtypes) != 1 or not dtypes <= set(FLOATS) or not _are_exact(found.masks, *dtypes):
        return None
    return replace(found, values=values, shape=shape, inside=found.inside | {softmax, *inside})


def _are_exact(masks: Sequence[Mask], dtype: torch.dtype) -> bool:
    """True if one mask that is added, in the operands' dtype, has the effect of all of these one after the other.

    Fills that absorb scores do so as parts of a sum.  Others are made to, which is right of one value alone: a row that
    is masked out whole is weighed by what stands in it.
    """
    if any(isinstance(mask, Added) and _dtype(mask.bias) != dtype for mask in masks):
        return False
    fills = {mask.value for mask in masks if isinstance(mask, Filled)}
    if dtype == torch.float16:  # its smallest number does not absorb the scores
        return fills <= {-math.inf}
    return all(fill <= ABSORBING for fill in fills) or (len(fills) == 1 and not _added(masks))


def _added(masks: Sequence[Mask]) -> list[Added]:
    return [mask for mask in masks if isinstance(mask, Added)]


# -- the scores, from the softmax back to the first product -----------------------------------------------------------


def _scores(argument: object, shape: tuple[int, ...]) -> Attention | None:
    """The attention that a node computes scores of this shape for, on their way from the first product to the softmax;
    without its values yet."""
    node, inside = _source(argument)
    queries: Any
    keys: Any
    if node.target in _PRODUCTS and not _has_the_rows(_shape(node), shape):
        return None
    if node.target is aten.bmm.default:
        queries, keys = node.args
        return Attention(queries, keys, keys, shape, inside=frozenset({node, *inside}))
    # A bias added by the product itself.
    if node.target is aten.baddbmm.default and node.kwargs.get("beta", 1) == 1:
        bias, queries, keys = node.args
        scale = float(node.kwargs.get("alpha", 1))
        masks = (Added(bias, joined=True),)
        return Attention(queries, keys, keys, shape, scale, masks, frozenset({node, *inside}))
    step = _STEPS.get(node.target)
    # A step that spreads the scores to another shape is not one of attention's.
    if step is None or _shape(node) != shape or node.kwargs:
        return None
    found = step(node, shape)
    return found and replace(found, inside=found.inside | {node, *inside})


def _has_the_rows(product: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """True if a product has as many matrices of as many rows and columns as the scores: none is spread over several."""
    return product[-2:] == shape[-2:] and math.prod(product) == math.prod(shape)


def _product(node: Node, shape: tuple[int, ...]) -> Attention | None:
    """Scores times a number."""
    found, factor = _scores(node.args[0], shape), _number(node.args[1])
    return found.scaled(factor) if found is not None and factor is not None else None


def _quotient(node: Node, shape: tuple[int, ...]) -> Attention | None:
    """Scores divided by a number."""
    found, divisor = _scores(node.args[0], shape), _number(node.args[1])
    return found.scaled(1 / divisor) if found is not None and divisor else None


def _sum(node: Node, shape: tuple[int, ...]) -> Attention | None:
    # Either operand may be the scores.
    """Scores with a mask added."""
    for scores, bias in (node.args, node.args[::-1]):
        if isinstance(scores, Node) and isinstance(bias, Node) and (found := _scores(scores, shape)) is not None:
            return found.masked(Added(bias))
    return None


def _fill(node: Node, shape: tuple[int, ...]) -> Attention | None:
    scores, condition, value = node.args
    return _filled(scores, condition, True, value, shape)


def _choice(node: Node, shape: tuple[int, ...]) -> Attention | None:
    condition, then, other = node.args
    # ``where(c, scores, -inf)`` keeps the scores where c holds, ``where(c, -inf, scores)`` where it does not.
    return _filled(then, condition, False, other, shape) or _filled(other, condition, True, then, shape)


def _filled(scores: object, condition: object, holds: bool, fill: object, shape: tuple[int, ...]) -> Attention | None:
    """Scores with a mask filled in, if the fill is negative enough."""
    value = _number(fill)
    if value is None or value > VERY_NEGATIVE or not isinstance(scores, Node):
        return None
    found = _scores(scores, shape)
    stored = torch.tensor(value, dtype=_dtype(scores)).item()  # which is infinite where the number is none of the dtype
    return found and found.masked(Filled(condition, holds, stored))


_PRODUCTS = (aten.bmm.default, aten.baddbmm.default)
_Step: TypeAlias = Callable[[Node, tuple[int, ...]], Attention | None]
"""A function that follows the scores through one node."""
_STEPS: Mapping[Any, _Step] = {
    aten.mul.Tensor: _product,
    aten.mul.Scalar: _product,
    aten.div.Tensor: _quotient,
    aten.div.Scalar: _quotient,
    aten.add.Tensor: _sum,
    aten.masked_fill.Scalar: _fill,
    aten.masked_fill.Tensor: _fill,
    aten.where.self: _choice,
    aten.where.ScalarOther: _choice,
    aten.where.ScalarSelf: _choice,
}
"""The operators between the two products of an attention, each with the function that adds its effect."""


# -- looking through what moves nothing -------------------------------------------------------------------------------


def _source(argument: Any, *, rounded: bool = False) -> tuple[Node, list[Node]]:
    """The node that computes the elements of a tensor, and the nodes between, which only reshape or copy them in the
    same order, and may round them to floats of fewer bits."""
    node, passed = argument, []
    while _passes_on(node) and (rounded or _dtype(node) == torch.promote_types(_dtype(node), _dtype(node.args[0]))):
        passed.append(node)
        node = node.args[0]
    return node, passed


def laid(operand: Node) -> Node:
    """The tensor before it was copied to be an operand of a product, where that has the same rows and columns."""
    node, matrix = operand, _shape(operand)[-2:]
    while _passes_on(node) and node.target is not aten._to_copy.default:
        if node.target is aten.clone.default and _shape(node.args[0])[-2:] == matrix:
            operand = node.args[0]
        node = node.args[0]
    return operand


def _passes_on(node: Node) -> bool:
    """True if the elements of the first argument come out in the same order, perhaps as floats of another width."""
    if node.target in (aten.view.default, aten._unsafe_view.default, aten.clone.default, aten.unsqueeze.default):
        return True
    if node.target is aten.expand.default:
        return math.prod(_shape(node)) == math.prod(_shape(node.args[0]))
    if node.target is aten.permute.default:
        # Dimensions of one element may go anywhere.
        moved = [dim for dim in _wrapped(node.args[1], _shape(node)) if _shape(node.args[0])[dim] != 1]
        return moved == sorted(moved)
    if node.target is aten._to_copy.default:
        return _dtype(node) in FLOATS and _dtype(node.args[0]) in FLOATS
    return False


def _wrapped(dims: Iterable[int], shape: tuple[int, ...]) -> list[int]:
    return [dim % len(shape) for dim in dims]


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(node.meta["val"].shape)


def _dtype(node: Any) -> torch.dtype:
    dtype: torch.dtype = node.meta["val"].dtype
    return dtype


def _number(argument: Any) -> float | None:
    """A number of the graph, also as a tensor without dimensions that is made there."""
    if isinstance(argument, Node) and argument.target in (aten.full.default, aten.scalar_tensor.default):
        made = _number(argument.args[-1]) if _shape(argument) == () else None
        return None if made is None else float(torch.tensor(made, dtype=_dtype(argument)))
    is_number = isinstance(argument, int | float) and not isinstance(argument, bool)
    return float(argument) if is_number else None
