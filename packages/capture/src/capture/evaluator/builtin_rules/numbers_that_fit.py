"""Dynamic numbers where torch refuses those that the tensor's dtype cannot hold: ``x.clamp(max=n)`` of eight bits.

In the graph such a number is a symbol or a tensor, which is cut to what fits without a word.  That it does fit is
relied on; one that does not is the constant that it is in this call, so that torch refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import torch

from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.reasons import Kind
from capture.values.base import Value
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import SequenceValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

_ANYWHERE: dict[str, Collection[int]] = dict.fromkeys(
    (
        "clamp", "clip", "clamp_min", "clamp_max", "fill", "masked_fill", "full_like", "fill_diagonal", "where",
        "threshold", "lerp",
        "leaky_relu", "elu", "celu", "hardtanh", "hardshrink", "softshrink", "softplus", "nan_to_num", "scalar_tensor",
    ),
    (),
)  # fmt: skip
_BUT_FOR: dict[str, Collection[int]] = {
    "full": (0,), "new_full": (1,), "pad": (1,), "constant_pad_nd": (1,), "index_fill": (1,), "scatter": (1,),
    "add": (0, 1), "sub": (0, 1), "rsub": (0, 1), "index_add": (1,),
    **dict.fromkeys(("addcmul", "addcdiv", "addmm", "addmv", "addr", "addbmm", "baddbmm"), ()),
}  # fmt: skip
_HOLDING = _ANYWHERE | _BUT_FOR
"""Operators that refuse a number, by name, with the positions of numbers that say a size or a dimension, or that take
part in arithmetic, where they may be of any size."""
_SIZES = frozenset({"size", "pad", "dim"})
_FILLING = frozenset({"full", "full_like", "new_full", "fill", "scalar_tensor"})
_OF_DEFAULT_TYPE = frozenset({"full", "where", "scalar_tensor"})
_WHOLE = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32})
_HALVES = frozenset({torch.float16, torch.bfloat16})
_FLOATS = frozenset({*_HALVES, torch.float32})
_LARGE = 2**63


def is_between(least: float, greatest: float, whole: bool, number: float) -> bool:
    """True if numbers up to these bounds are held, and this one is; infinity and NaN are floats."""
    return least <= number <= greatest or (not whole and not math.isfinite(number))


@dataclass(frozen=True, slots=True)
class _Range:
    """The numbers that all the dtypes at hand can hold."""

    least: float
    greatest: float
    whole: bool

    @property
    def holds(self) -> partial[bool]:
        """Says of a number whether they hold it; as data, for other processes."""
        return partial(is_between, self.least, self.greatest, self.whole)

    def holds_all_of(self, dtype: torch.dtype) -> bool:
        """True if no number read out of a tensor of this dtype is refused."""
        limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        return self.least <= limits.min and limits.max <= self.greatest and not (self.whole and dtype in _FLOATS)


def numbers_that_may_not_fit(
    ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """The family of operators that refuse a number which their tensors cannot hold."""
    name = str(getattr(function, "__name__", "")).strip("_")
    if name not in _HOLDING or not any(map(_is_dynamic, (*args, *kwargs.values()))):
        return None
    kinds, others = frozenset(_kinds(name, args, kwargs)), _HOLDING[name]
    filled = args[1:2] if name == "new_full" else args[:1]
    if name in _FILLING and any(map(_is_one, filled)):  # which eager fills with infinity
        kinds -= _HALVES
    held = [arg if place in others else that_fits(ctx, arg, kinds, name) for place, arg in enumerate(args)]
    options = {key: value if key in _SIZES else that_fits(ctx, value, kinds, name) for key, value in kwargs.items()}
    before, after = (*args, *kwargs.values()), (*held, *options.values())
    if all(new is old for new, old in zip(after, before, strict=True)):
        return None
    return ctx.call_builtin(function, held, options)


def that_fits(ctx: World, number: Value, kinds: frozenset[torch.dtype], name: str = "fill") -> Value:
    """The number, relied on to be held by the types; as it is in this call where one of them cannot hold it.

    The run is asked about numbers that only it will tell, but for those that are sizes.
    """
    if not _is_dynamic(number) or (held := _held_by_all(kinds, number.python_type(), name in _FILLING)) is None:
        return number
    if isinstance(number, SymbolicNumber):
        if number.example.node.hint is None:
            return number
        fits = bool(number.example <= held.greatest) and bool(number.example >= held.least)
        return number if fits else ConstantValue(number.specialized())
    assert isinstance(number, ScalarValue)
    if number.source is None:
        return _computed_that_fits(ctx, number, held)
    if held.holds(number.now):
        ctx.guard(number.source, GuardKind.PYTHON, held.holds, text=f"{number.describe()} fits {_words(kinds)}")
        return number
    ctx.guard(number.source, GuardKind.EQUALS, number.now)
    return ConstantValue(number.now)


def _computed_that_fits(ctx: World, number: ScalarValue, held: _Range) -> Value:
    """A number that follows from one that was passed in, or is data-dependent, if it fits: the run is asked."""
    if number.read_from is not None and held.holds_all_of(number.read_from):
        return number
    asked = ScalarValue(bool, function=held.holds, operands=[number])
    truth = asked.decided(ctx)
    if truth is None and not ctx.expect(asked, True):
        hint = "it runs as in eager; the rest of the function is captured"
        ctx.stop(Kind.ERROR_IN_AN_OPERATION, "eager looks whether a number fits the type of a tensor", hint)
    if truth is not False:
        return number
    leaf = next((leaf for leaf in number._given() if leaf is not None), None)
    if leaf is None:  # it follows from sizes
        return ConstantValue(number.of_this_call())
    ctx.guard(leaf.source, GuardKind.EQUALS, leaf.now)
    return ConstantValue(number._computed(leaf.now))


def _is_one(filled: Value) -> bool:
    """True for a tensor of one element, or the sizes of one."""
    if isinstance(filled, SequenceValue):
        return all(isinstance(size, ConstantValue) and size.value == 1 for size in filled.items)
    return isinstance(filled, TensorValue) and all(isinstance(size, int) and size == 1 for size in filled.fake.shape)


def _is_dynamic(value: Value) -> bool:
    """True for a number that differs from call to call."""
    if isinstance(value, SymbolicNumber):
        return value.python_type() is int
    return isinstance(value, ScalarValue) and value.cls in (int, float)


def _kinds(name: str, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Iterator[torch.dtype]:
    """The types of the tensors, and of the result where it is said."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, TensorValue):
            yield value.fake.dtype
        elif isinstance(value, ConstantValue) and isinstance(value.value, torch.dtype):
            yield value.value
    if name in _OF_DEFAULT_TYPE:
        yield torch.get_default_dtype()


@cache
def _held_by_all(kinds: frozenset[torch.dtype], cls: type, fills: bool) -> _Range | None:
    """The range of numbers that these dtypes hold; None where they hold any number of its type.

    A float beside integers makes floats, unless it fills them.
    """
    whole = kinds & _WHOLE if cls is int else kinds & {*_WHOLE, torch.int64} if fills else frozenset()
    floats = kinds & _FLOATS
    limits = [*map(torch.finfo, floats), *map(torch.iinfo, whole)]
    if not limits or (cls is int and min(limit.max for limit in limits) >= _LARGE):
        return None
    return _Range(max(limit.min for limit in limits), min(limit.max for limit in limits), bool(whole))


def _words(kinds: frozenset[torch.dtype]) -> str:
    return " and ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
