"""The layout of results of operators by elements, where a dimension has one element.

A kernel goes over its operands by one iterator.  It asks first whether all are contiguous, then whether the channels of
all are innermost, then whether all lie alike, and only then orders the dimensions by all strides.  Fakes ask otherwise,
and differ where a dimension has one element: it may have any stride, by which a convolution behind it tells what format
its operand has.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Any, TypeAlias

import torch

from capture.recording.indexed_order import by_strides

_Numbers: TypeAlias = Sequence[int]
_Layout: TypeAlias = tuple[_Numbers, _Numbers]
"""Sizes and strides."""
SchemaOf: TypeAlias = Callable[[Any], Any]
"""Reads the schema of an operator."""


class _Kind(Enum):
    """The iterations of kernels."""

    TOGETHER = auto()
    BESIDE_NUMBERS = auto()
    """Beside a number that stands as a tensor without dimensions: operands have not all one shape then."""
    TURNED = auto()
    """Over the operands in the opposite order."""
    ALIKE = auto()
    """Into a tensor made to lie as the first operand."""
    CONTIGUOUS = auto()
    """Into a contiguous tensor."""
    MAGNITUDES = auto()
    """Of magnitudes, beside a number."""
    MAGNITUDES_AND_ALL = auto()
    """The same, and then together with what goes over the operands."""
    POWERS = auto()
    """Together with powers of the second operand, which are contiguous."""


def laid_out_by_elements(
    schema_of: SchemaOf, func: object, args: Sequence[object], kwargs: Mapping[str, object], result: Any
) -> Any:
    """The result of a fake kernel as the operator's own kernel lays it out, if that goes by elements.

    Sizes that vary count as in this call, by which no guard comes about.
    """
    several = result if isinstance(result, (tuple, list)) else (result,)
    if not any(map(_has_single, several)) or (kind := _kind(schema_of, func)) is None:
        return result
    operands = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.Tensor)]
    if all(map(_is_in_plain_order, (*several, *operands))):
        return result
    if kind in _OF_FLOATS and not operands[0].is_floating_point():
        if operands[0].is_complex():
            return result
        kind = _Kind.ALIKE  # the same for all
    if kind is _Kind.ALIKE:
        operands = operands[:1] if kwargs.get("memory_format") in (None, torch.preserve_format) else []
    elif _stands_number(schema_of, func, args):
        kind = _Kind.BESIDE_NUMBERS
    if not operands:
        return result
    laid = [_laid_out(each, operands, kind) if _has_single(each) else each for each in several]
    make = getattr(type(result), "_make", type(result))  # a named tuple has `_make`
    return make(laid) if isinstance(result, (tuple, list)) else laid[0]


def _has_single(result: object) -> bool:
    return (
        isinstance(result, torch.Tensor)
        and result.dim() > 1
        and any(type(size) is int and size == 1 for size in result.shape)
    )


def _is_in_plain_order(value: object) -> bool:
    """True for a tensor that lies in the order of its dimensions, those of one element too: kernels have most of these,
    and make nothing else of them."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return False
    step = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if type(size) is not int or type(stride) is not int or stride != step:
            return False
        step *= size
    return True


@cache
def _kind(schema_of: SchemaOf, func: Any) -> _Kind | None:
    schema = schema_of(func)
    name = schema.name.removeprefix("aten::")
    if func.namespace != "aten" or schema.is_mutable or any(each.alias_info is not None for each in schema.returns):
        return None
    if name in _ALIKE:
        return _Kind.ALIKE
    if name in _CONTIGUOUS or str(func) == "aten.pow.Scalar":
        return _Kind.CONTIGUOUS
    if name in _MADE_OF_OTHERS:
        return _MADE_OF_OTHERS[name]
    if name in _OTHERS or (torch.Tag.pointwise not in func.tags and name not in _WITHOUT_A_TAG):
        return None
    if "scalar" in schema.overload_name.lower() and name not in _OF_NUMBERS:
        return _Kind.BESIDE_NUMBERS
    return _Kind.TURNED if name in _TURNED else _Kind.TOGETHER


def _stands_number(schema_of: SchemaOf, func: object, args: Sequence[object]) -> bool:
    """True if a number is given in the place of a tensor."""
    return any(place < len(args) and isinstance(args[place], _NUMBERS) for place in _places(schema_of, func))


_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)


@cache
def _places(schema_of: SchemaOf, func: object) -> tuple[int, ...]:
    """The places of tensors among the arguments."""
    arguments = enumerate(schema_of(func).arguments)
    return tuple(place for place, each in arguments if isinstance(each.type, torch.TensorType))


_ALIKE = frozenset((
    "clone", "_to_copy", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "randint_like", "flip", "sort", "index_fill", "index_put", "deg2rad", "rad2deg", "frexp", "hardtanh", "nan_to_num",
    "_conj_physical",
))  # fmt: skip
"""Operators that make a tensor as another lies: with its strides where it is dense."""
_CONTIGUOUS = frozenset((
    "masked_fill", "mvlgamma", "_log_softmax", "triu", "tril", "renorm", "normal", "diag_embed", "native_layer_norm",
))  # fmt: skip
_OTHERS = frozenset((
    "log_sigmoid_forward", "rrelu_with_noise", "rrelu_with_noise_backward", "rrelu_with_noise_functional",
))  # fmt: skip
"""Operators by elements that have rules of their own."""
_MADE_OF_OTHERS = {"isinf": _Kind.MAGNITUDES, "isfinite": _Kind.MAGNITUDES_AND_ALL, "ldexp": _Kind.POWERS}
"""Operators by elements that go over their operands several times."""
_OF_FLOATS = (_Kind.MAGNITUDES, _Kind.MAGNITUDES_AND_ALL)
_WITHOUT_A_TAG = frozenset(("floor_divide", "rsub", "polar", "complex", "hardswish", "huber_loss", "leaky_relu"))
"""Operators by elements that torch does not mark as such; the last one torch 2.11 alone does not."""
_TURNED = frozenset(("threshold_backward", "rsub"))
_OF_NUMBERS = frozenset(("lerp", "pow"))
"""Operators of which kernels take numbers as they are."""


def _laid_out(result: torch.Tensor, operands: Sequence[torch.Tensor], kind: _Kind) -> torch.Tensor:
    given = [_in_this_call(each) for each in (result, *operands)]
    known = tuple(each for each in given if each is not None)
    if len(known) < len(given) or result.layout is not torch.strided or 0 in known[0][0]:
        return result
    (shape, found), layouts = known[0], known[1:]
    order = _order_of(kind, shape, layouts)
    if found == (layouts[0][1] if order is None else _dense(shape, order)):
        return result
    # The sizes themselves, of which some may vary.
    return result.new_empty_strided(
        result.shape, operands[0].stride() if order is None else _dense(result.shape, order)
    )


@lru_cache(4096)  # models repeat what they do
def _order_of(kind: _Kind, shape: _Numbers, layouts: tuple[_Layout, ...]) -> _Numbers | None:
    """The dimensions of the result from the outermost to the innermost; None where it has the first operand's
    strides."""
    if kind in _MADE_OF_OTHERS.values():
        return _order_of_the_last(kind, shape, layouts)
    if _lie_alike(shape, layouts, kind):
        return None
    return _order(shape, layouts[::-1] if kind is _Kind.TURNED else layouts, kind)


def _order_of_the_last(kind: _Kind, shape: _Numbers, layouts: tuple[_Layout, ...]) -> _Numbers | None:
    """The order in which the last of several iterations leaves the result."""
    if kind is _Kind.POWERS:
        sizes = layouts[-1][0]
        return _order_of(_Kind.TOGETHER, shape, (layouts[0], (sizes, _dense(sizes, range(len(sizes))))))
    first = _order_of(_Kind.TOGETHER, shape, layouts)
    made = shape, layouts[0][1] if first is None else _dense(shape, first)
    beside = _order(shape, (made,), _Kind.BESIDE_NUMBERS)
    if kind is _Kind.MAGNITUDES:
        return beside
    together = _order_of(_Kind.TOGETHER, shape, (made, (shape, _dense(shape, beside))))
    return first if together is None else together


def _lie_alike(shape: _Numbers, operands: Sequence[_Layout], kind: _Kind) -> bool:
    """True if the result has the strides of the operands: dense ones, which are in no format."""
    (sizes, strides), *others = operands
    if kind in (_Kind.BESIDE_NUMBERS, _Kind.CONTIGUOUS) or sizes != shape:
        return False
    if any(each != operands[0] for each in others):
        return False
    return _is_dense(sizes, strides) and (kind is _Kind.ALIKE or _format(shape, operands) is None)


def _order(shape: _Numbers, operands: Sequence[_Layout], kind: _Kind) -> _Numbers:
    """The dimensions from the outermost to the innermost."""
    if kind is _Kind.CONTIGUOUS:
        return range(len(shape))
    is_one_shape = all(sizes == shape for sizes, _ in operands)
    if kind in (_Kind.TOGETHER, _Kind.TURNED) and is_one_shape and (order := _format(shape, operands)):
        return order
    return by_strides(shape, [_along(shape, each) for each in operands])


def _format(shape: _Numbers, operands: Sequence[_Layout]) -> _Numbers | None:
    """The order of the dimensions in the format that all operands have: contiguous, or with the channels innermost."""
    for order in ((0, 1, 2, 3), (0, 2, 3, 1)) if len(shape) == 4 else (tuple(range(len(shape))),):
        if all(_lies_in(order, *each) for each in operands):
            return order
    return None


def _lies_in(order: _Numbers, sizes: _Numbers, strides: _Numbers) -> bool:
    step = 1
    for dim in reversed(order):
        if sizes[dim] != 1:
            if strides[dim] != step:
                return False
            step *= sizes[dim]
    return True


def _is_dense(sizes: _Numbers, strides: _Numbers) -> bool:
    return _lies_in(sorted(range(len(sizes)), key=lambda dim: strides[dim], reverse=True), sizes, strides)


def _along(shape: _Numbers, operand: _Layout) -> _Numbers:
    """The strides of an operand that is spread over a shape: none where it has one and the shape several."""
    dims = zip_longest(reversed(shape), reversed(operand[0]), reversed(operand[1]), fillvalue=None)
    spread = [0 if own is None or stride is None or size != own == 1 else stride for size, own, stride in dims]
    return spread[::-1]


def _dense(shape: _Numbers, order: _Numbers) -> tuple[int, ...]:
    strides, step = [1] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def _in_this_call(tensor: torch.Tensor) -> _Layout | None:
    """Sizes and strides; nothing where one depends on data, or happens to be one in this call alone."""
    shape, stride = tuple(tensor.shape), tensor.stride()
    if all(type(number) is int for number in (*shape, *stride)):
        return shape, stride
    sizes, strides = tuple(map(_now, shape)), tuple(map(_now, stride))
    happens = any(now in (None, 1) for now, size in zip(sizes, shape, strict=True) if isinstance(size, torch.SymInt))
    if happens or None in sizes or None in strides:
        return None
    return sizes, strides  # type: ignore[return-value]


def _now(number: int | torch.SymInt) -> int | None:
    hint: int | None = number.node.hint if isinstance(number, torch.SymInt) else number
    return hint
