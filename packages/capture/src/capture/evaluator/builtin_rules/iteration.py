"""Builtins that make or consume iterators, and ``itertools``.

Makers give lazy values (``values/iterator``) and run nothing.  Consumers step an iterator until it is at its end, in
CPython's order: what an iterable of the program does on the way, raise included, happens as often and as early as
there.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

import torch

from capture.evaluator.builtin_rules.equality import keys_like_a_set
from capture.evaluator.builtin_rules.formulas import computed, is_known_before, named
from capture.evaluator.builtin_rules.indexing import has_index, index_of
from capture.evaluator.builtin_rules.registry import fold, pure, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Tracer, Value, callable_type, held_by, realize, refuse, throw_as, type_name
from capture.values.classes import ClassValue
from capture.values.constant import NONE, ConstantValue, boolean, is_none
from capture.values.descriptors import special
from capture.values.iterating import CallableIterator, ChainIterator, UserIterator, has_items, iterate
from capture.values.iterator import (
    CountIterator,
    DequeIterator,
    DictIterator,
    EnumerateIterator,
    FilterIterator,
    IteratorValue,
    MapIterator,
    PairIterator,
    RangeIterator,
    RepeatIterator,
    ReverseIterator,
    ReverseObjectIterator,
    RowIterator,
    SliceIterator,
    ZipIterator,
    taken_result,
)
from capture.values.mapping import DictValue, DictView
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, OutsideList, SequenceValue, SetValue, TupleValue
from capture.values.slots import has_code_for
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

pure(
    abs,
    round,
    divmod,
    pow,
    ord,
    chr,
    bin,
    hex,
    oct,
    hash,
    repr,
    str,
    int,
    float,
    complex,
    bool,
    bytes,
    format,
    len,
    slice,
)


@rule(abs, kinds=(TensorValue,))
def absolute(ctx: Tracer, value: TensorValue) -> Value:
    return ctx.record(torch.abs, [value], {})


@rule(len, kinds=(None,))
def length(ctx: Tracer, value: Value) -> Value:
    # Only how long it is was asked for: a number that may vary, and none of its items.
    if isinstance(value, OutsideList) and value.is_unread() and (before := value.symbolic_length()) is not None:
        # What was appended without a look at the list counts besides.
        added = ConstantValue(len(value.added))
        return ctx.call_builtin(operator.add, [before, added], {}) if value.added else before
    if isinstance(value, SequenceValue):
        return ConstantValue(len(value.items))
    if isinstance(value, (DictValue, SetValue)):
        return ConstantValue(len(value.entries))
    if isinstance(value, DictView):
        return ConstantValue(len(value.owner.entries))
    if isinstance(value, TensorValue):
        return _tensor_length(ctx, value)
    if isinstance(value, UserObject):
        said = value.answer(ctx, "__len__", int)
        if said is not None:
            return said
    if isinstance(value, ConstantValue):
        folded = fold(ctx, len, [value], {})
        assert folded is not None
        return folded
    if isinstance(value, ClassValue) and (method := special(ctx, value, "__len__")) is not None:
        said = realize(ctx, ctx.call(method, []))  # of an enumeration
        if isinstance(said, ConstantValue) and type(said.value) is int and 0 <= said.value <= sys.maxsize:
            return said
    return refuse(ctx, value, f"object of type '{type_name(value.python_type())}' has no len()", "__len__")


def _tensor_length(ctx: Tracer, value: TensorValue) -> Value:
    if value.fake.dim() == 0:
        ctx.throw(TypeError, "len() of a 0-d tensor")
    return value.shape(ctx).elements(ctx)[0]


@rule(range)
def make_range(ctx: Tracer, first: Value, stop: Value | None = None, step: Value | None = None, /) -> Value:
    # A range is a constant here: its bounds become constants of the version.
    bounds = [ConstantValue(index_of(ctx, bound)) for bound in (first, stop, step) if bound is not None]
    made = fold(ctx, range, bounds, {})
    assert made is not None
    return made


@rule(iter, kinds=(None,))
def make_iter(ctx: Tracer, value: Value, sentinel: Value | None = None) -> Value:
    """``iter``; with a second argument the first is no iterable, but is called until it gives that."""
    if sentinel is not None and not callable_type(value):
        throw_as(ctx, iter, 1, 2)
    if sentinel is not None:
        return CallableIterator(value, sentinel)
    made = iterate(ctx, value)
    # The program gets the object that its `__iter__` gave; our wrapper is there to take steps.
    return made.owner if isinstance(made, UserIterator) else made


@rule(str.__iter__, bytes.__iter__, range.__iter__, frozenset.__iter__, kinds=(ConstantValue,))
def iterate_constant(ctx: Tracer, value: ConstantValue) -> Value:
    return iterate(ctx, value)


@rule(range.__reversed__, kinds=(ConstantValue,))
def reverse_constant(ctx: World, value: ConstantValue) -> Value:
    return make_reversed(ctx, value)


@rule(next, kinds=(None,))
def take_next(ctx: Tracer, iterator: Value, default: Value | None = None) -> Value:
    # Without a default the StopIteration of the user's own code passes as it is, with whatever it carries.
    if isinstance(iterator, UserObject):
        method = iterator.special(ctx, "__next__")
        if method is not None and default is None:
            return ctx.call(method, [])
        if method is None:
            ctx.throw(TypeError, f"'{type_name(iterator.cls)}' object is not an iterator")
        # With a default, or for none, the program does not see the exception.
        found = ctx.attempt(method, StopIteration)
    elif isinstance(iterator, IteratorValue):
        found = iterator.step(ctx)
    else:
        ctx.throw(TypeError, f"'{type_name(iterator.python_type())}' object is not an iterator")
    if found is not None:
        return found
    if default is not None:
        return default
    # A generator that returned something hands it over with its end.
    return ctx.throw(StopIteration, *(taken_result(iterator) if isinstance(iterator, IteratorValue) else ()))


@rule(enumerate, kinds=(None,))
def make_enumerate(ctx: Tracer, value: Value, start: Value | None = None) -> Value:
    if start is not None and not isinstance(start, SymbolicNumber):
        start = ctx.call_builtin(operator.index, [start], {})
    numbers = CountIterator(start or ConstantValue(0), ConstantValue(1))
    # The items come first: an exhausted iterable must not use up a number.
    return EnumerateIterator(numbers, iterate(ctx, value))


@rule(zip)
def make_zip(ctx: Tracer, *iterables: Value, strict: Value | None = None) -> Value:
    return ZipIterator([iterate(ctx, item) for item in iterables], strict=strict is not None and strict.truth(ctx))


@rule(map, kinds=(None, None))
def make_map(ctx: Tracer, function: Value, *iterables: Value) -> Value:
    # One iterable or several, ``map`` calls with a row of them: the shortest ends it.
    return MapIterator(function, ZipIterator([iterate(ctx, item) for item in iterables]))


@rule(itertools.starmap, kinds=(None, None))
def make_starmap(ctx: Tracer, function: Value, iterable: Value) -> Value:
    return MapIterator(function, iterate(ctx, iterable))


@rule(filter, kinds=(None, None))
def make_filter(ctx: Tracer, predicate: Value, iterable: Value) -> Value:
    return FilterIterator(predicate, iterate(ctx, iterable))


@rule(reversed, kinds=(None,))
def make_reversed(ctx: World, value: Value) -> Value:
    if isinstance(value, UserObject):
        return _reversed_object(ctx, value)
    if isinstance(value, ListValue) and value.cls is collections.deque:
        return DequeIterator(value, backwards=True)
    if isinstance(value, SequenceValue):
        return ReverseIterator(value)
    if isinstance(value, DictValue):
        return DictIterator(value, "keys", backwards=True)
    if isinstance(value, DictView):
        return DictIterator(value.owner, value.which, backwards=True)
    if isinstance(value, ConstantValue) and isinstance(value.value, range):
        return RangeIterator(value.value[::-1])
    if isinstance(value, TensorValue):
        return ctx.call(value.attribute(ctx, "__reversed__"), [])
    # What is neither reversible nor indexed is refused by Python itself; of what is left nothing is known.
    if not hasattr(value.python_type(), "__reversed__") and not hasattr(value.python_type(), "__getitem__"):
        ctx.throw(TypeError, f"'{type_name(value.python_type())}' object is not reversible")
    return ctx.stop(Kind.ITERATION, f"{value.describe()} is iterated backwards")


def _reversed_object(ctx: World, value: UserObject) -> Value:
    method = value.special(ctx, "__reversed__")
    if method is not None:
        return ctx.call(method, [])
    item = value.special(ctx, "__getitem__")
    if item is None:
        ctx.throw(TypeError, f"'{type_name(value.cls)}' object is not reversible")
    if not has_code_for(value.cls, "__getitem__"):  # C knows whether it is indexed like a sequence
        ctx.stop(Kind.ITERATION, f"{value.describe()} is iterated backwards")
    # The length is asked for once, here; later changes of it are not seen, as in C.
    return ReverseObjectIterator(value, item, index_of(ctx, length(ctx, value)) - 1)


@rule(itertools.chain)
def make_chain(ctx: Tracer, *iterables: Value) -> Value:
    return ChainIterator(iterate(ctx, TupleValue(iterables)))


@rule(itertools.chain.from_iterable, kinds=(None,))
def chain_from_iterable(ctx: Tracer, iterables: Value) -> Value:
    return ChainIterator(iterate(ctx, iterables))


@rule(itertools.count)
def make_count(ctx: Tracer, start: Value | None = None, step: Value | None = None) -> Value:
    if not all(number is None or _may_count(number) for number in (start, step)):
        throw_as(ctx, itertools.count, "")
    return CountIterator(start or ConstantValue(0), step or ConstantValue(1))


def _may_count(value: Value) -> bool:
    """True for what C takes for a number (``PyNumber_Check``)."""
    cls = value.python_type()
    return cls is complex or any(held_by(cls, name) is not None for name in ("__index__", "__int__", "__float__"))


@rule(itertools.repeat, kinds=(None,))
def make_repeat(ctx: Tracer, object: Value, times: Value | None = None) -> Value:
    return RepeatIterator(object, None if times is None else max(index_of(ctx, times), 0))


@rule(itertools.islice, kinds=(None, None))
def make_islice(
    ctx: Tracer, iterable: Value, first: Value, stop: Value | None = None, step: Value | None = None, /
) -> Value:
    given = [bound for bound in (first, stop, step) if bound is not None]
    if not all(is_none(bound) or has_index(bound) for bound in given):
        ctx.stop(Kind.ITERATION, "`itertools.islice` is called with bounds that it refuses")
    limits = [None if is_none(bound) else index_of(ctx, bound) for bound in given]
    # CPython runs it and raises ValueError in its own words.
    if any(limit is not None and limit < 0 for limit in limits) or limits[2:] == [0]:
        ctx.stop(Kind.ITERATION, "`itertools.islice` is called with bounds that it refuses")
    return SliceIterator(iterate(ctx, iterable), slice(*limits))


@rule(itertools.product)
def make_product(ctx: Tracer, *iterables: Value, repeat: Value | None = None) -> Value:
    # As in Python, all is read before the first row is made.
    times = 1 if repeat is None else index_of(ctx, repeat)
    if times < 0:
        throw_as(ctx, functools.partial(itertools.product, repeat=-1))
    pools = [iterate(ctx, item).rest(ctx) for item in iterables]
    # ``repeat`` lists the same pools again.
    return RowIterator(itertools.product, pools * times, [])


def _rows(cls: Any) -> Any:
    """The rule for combinations or permutations, which read all of their items at once."""

    def make(ctx: Tracer, iterable: Value, r: Value | None = None) -> Value:
        pool = iterate(ctx, iterable).rest(ctx)
        options = [] if r is None or is_none(r) else [index_of(ctx, r)]
        if (not options and cls is itertools.combinations) or options[:1] < [0] * len(options):
            ctx.stop(Kind.ITERATION, f"`itertools.{cls.__name__}` is called in a way that it refuses")
        return RowIterator(cls, [pool], options)

    return make


for _function in (itertools.combinations, itertools.permutations):
    rule(_function)(_rows(_function))


@rule(itertools.pairwise, kinds=(None,))
def make_pairwise(ctx: Tracer, iterable: Value) -> Value:
    return PairIterator(iterate(ctx, iterable))


# -- folds over iterables ----------------------------------------------------------------------------------------


@rule(sum, kinds=(None,))
def total(ctx: World, iterable: Value, start: Value | None = None) -> Value:
    """``sum``, with CPython's own way of adding up floats."""
    result = start or ConstantValue(0)
    # Python refuses it; the error is its own.
    if isinstance(result, ConstantValue) and isinstance(result.value, (str, bytes)):
        ctx.stop(Kind.BUILTIN, "`sum` is given a text to begin with")
    iterator = iterate(ctx, iterable)
    value = iterator.step(ctx)
    # As long as they are numbers they are one sum, which is more exact than its parts one after another.
    if _LOSES_NO_DIGITS:
        # The start counts along; a value that is no number ends the exact sum, and plain additions go on from it.
        numbers = [result]
        while _is_number(numbers[0]) and value is not None and _is_number(value := realize(ctx, value)):
            numbers.append(value)
            value = iterator.step(ctx)
        result = _sum_of_numbers(ctx, numbers)
    while value is not None:
        result = ctx.call_builtin(operator.add, [result, value], {})
        value = iterator.step(ctx)
    return result


_LOSES_NO_DIGITS = sum([0.1] * 10) == 1
"""True if this Python's ``sum`` carries along what is rounded away, until a value is no number (3.12 and later)."""


def _is_number(value: Value) -> bool:
    return value.python_type() in (int, float, bool)


def _sum_of_numbers(ctx: World, numbers: Sequence[Value]) -> Value:
    """The sum as Python rounds it, where it is all numbers."""
    if sum(number.python_type() is float for number in numbers) > 1:  # one alone is rounded as by `+`
        if all(isinstance(number, ConstantValue) for number in numbers):
            return ConstantValue(_SUM(*(number.constant() for number in numbers)))
        if all(is_known_before(ctx, number) for number in numbers):
            return computed(ctx, _SUM, numbers)
        ctx.stop(Kind.TENSOR_VALUE, "data-dependent floats are added up by `sum`", "add them up as tensors")
    # Whole numbers, and at most one float: additions one after the other round the same.
    return functools.reduce(lambda one, other: ctx.call_builtin(operator.add, [one, other], {}), numbers)


_SUM = named("sum", lambda first, *more: sum(more, first))


@rule(math.prod, kinds=(None,))
def product(ctx: Tracer, iterable: Value, *, start: Value | None = None) -> Value:
    result = start or ConstantValue(1)
    iterator = iterate(ctx, iterable)
    while (value := iterator.step(ctx)) is not None:
        result = ctx.call_builtin(operator.mul, [result, value], {})
    return result


@rule(any, kinds=(None,))
def any_true(ctx: Tracer, iterable: Value) -> Value:
    iterator = iterate(ctx, iterable)
    # Stops at the first that decides: what follows stays in the iterator.
    while (value := iterator.step(ctx)) is not None:
        if realize(ctx, value).truth(ctx):
            return boolean(True)
    return boolean(False)


@rule(all, kinds=(None,))
def all_true(ctx: Tracer, iterable: Value) -> Value:
    iterator = iterate(ctx, iterable)
    while (value := iterator.step(ctx)) is not None:
        if not realize(ctx, value).truth(ctx):
            return boolean(False)
    return boolean(True)


def _extreme(function: Any, better: object) -> Any:
    """The rule for ``min`` or ``max``."""

    def extreme(ctx: Tracer, *operands: Value, key: Value = NONE, default: Value | None = None) -> Value:
        values = iterate(ctx, operands[0]).rest(ctx) if len(operands) == 1 else list(operands)
        if not operands:
            throw_as(ctx, function)
        if not values:
            if default is not None:
                return default
            throw_as(ctx, function, ())
        # Known, or decided by a guard on sizes.
        if all(isinstance(value, (ConstantValue, SymbolicNumber)) for value in values) and is_none(key):
            return _extreme_number(ctx, function, better, values)
        # A data-dependent number: no branch, a number computed from both.  Of whole numbers it does not
        # matter which of two equal ones is given.
        if len(values) == 2 and is_none(key) and _are_whole_numbers(values):
            return ScalarValue(int, function=function, operands=values)
        best, best_key = None, None
        for value in values:
            measure = value if is_none(key) else ctx.call(key, [value])
            # Only a strictly better one replaces it: of equals the first is given.
            if best_key is None or ctx.call_builtin(better, [measure, best_key], {}).truth(ctx):
                best, best_key = value, measure
        assert best is not None
        return best

    return extreme


def _are_whole_numbers(values: list[Value]) -> bool:
    known = (ConstantValue, SymbolicNumber, ScalarValue)
    return all(isinstance(value, known) and value.python_type() is int for value in values)


def _extreme_number(ctx: Tracer, function: object, better: object, values: list[Value]) -> Value:
    best = values[0]
    for value in values[1:]:
        if ctx.call_builtin(better, [value, best], {}).truth(ctx):
            best = value
    return best


rule(min)(_extreme(min, operator.lt))
rule(max)(_extreme(max, operator.gt))


@rule(sorted, kinds=(None,))
def make_sorted(ctx: Tracer, iterable: Value, *, key: Value = NONE, reverse: Value | None = None) -> Value:
    values = _of_one_order(ctx, iterable) if is_none(key) else None
    if values is None:
        values = [realize(ctx, value) for value in iterate(ctx, iterable).rest(ctx)]
    measures = [value if is_none(key) else ctx.call(key, [value]) for value in values]

    def compare(a: int, b: int) -> int:
        """Sorting asks no more than whether one is less than the other."""
        # Less than 0 where a < b, else 0: ``sort`` asks nothing else, so that "greater" is never needed.
        return -ctx.call_builtin(operator.lt, [measures[a], measures[b]], {}).truth(ctx)

    # Positions are sorted, by Python's own stable sort, whose questions are answered by values.
    order = sorted(
        range(len(values)),
        key=functools.cmp_to_key(compare),
        reverse=reverse is not None and reverse.truth(ctx),
    )
    return ListValue([values[i] for i in order])


def _of_one_order(ctx: Tracer, iterable: Value) -> list[Value] | None:
    """The items of a set that have one order by themselves, whichever they came in: texts alone, or whole numbers."""
    iterable = realize(ctx, iterable)
    known = keys_like_a_set(ctx, iterable) if isinstance(iterable, (SetValue, ConstantValue)) else None
    if known is None:
        return None
    kinds = {type(key) for key in known}
    return list(known.values()) if len(kinds) == 1 and kinds <= {str, int, bytes} else None


@rule(functools.reduce, kinds=(None, None))
def reduce(ctx: Tracer, function: Value, iterable: Value, initial: Value | None = None) -> Value:
    if not has_items(ctx, iterable):
        throw_as(ctx, functools.reduce, operator.add, None)
    iterator = iterate(ctx, iterable)
    result = initial if initial is not None else iterator.step(ctx)
    if result is None:
        throw_as(ctx, functools.reduce, operator.add, ())
    while (value := iterator.step(ctx)) is not None:
        result = ctx.call(function, [result, value])
    return result
