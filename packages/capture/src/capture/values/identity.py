"""Objects of the program that were met, and by which paths.

Two paths may lead to one object where later calls bring two, or to two where later calls bring one.  The recorded graph
holds for what was found, so what of it the graph depends on is relied on here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from capture.guards.kinds import GuardKind
from capture.guards.sources import ArgSource, CellSource, ConstSource, Inputs, Source, comes_with_the_call
from capture.reasons import Kind
from capture.values.base import Tracer, Value, leads_through_fixed_code
from capture.values.classes import ClassValue
from capture.values.constant import ConstantValue, differs_from_itself
from capture.values.scalar import ScalarValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

_BY_VALUE = (ConstantValue, ScalarValue, SymbolicNumber)


class MetObjects:
    """The real objects that have a value, each kept alive so that its address stays its own."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._values: dict[int, Value] = {}
        self._alive: list[object] = []

    def find(self, obj: object) -> Value | None:
        return self._values.get(id(obj))

    def remember(self, obj: object, value: Value) -> None:
        self._values[id(obj)] = value
        self._alive.append(obj)

    def forget(self) -> None:
        for value in self._values.values():
            value.let_go()
        self._values.clear()
        self._alive.clear()
        del self._inputs

    def rely_on_one_object(self, ctx: Tracer, known: Value, obj: object, source: Source) -> None:
        """A second path to an object: the graph relies on both leading to the same one."""
        first = known.source
        if first is None or first == source or isinstance(first, ConstSource):
            if isinstance(first, ConstSource) and not leads_through_fixed_code(source):
                ctx.guard(source, GuardKind.IS, obj)
            return
        # Two paths of the call: that both lead to one object is the relation that each call has, whichever object it
        # is.
        if self._comes_and_goes(first, obj) and comes_with_the_call(source):
            text = f"{source.expression()} is {first.expression()}"
            ctx.guard(None, GuardKind.SAME, (first, source), None, None, text=text)
            return
        # Else each is pinned to the very object, which is the cheaper check where objects stay.
        for path in (first, source):
            if not (isinstance(path.root(), CellSource) or leads_through_fixed_code(path)):
                ctx.guard(path, GuardKind.IS, obj)

    def rely_on_separate(self, ctx: Tracer, changed: Iterable[Value]) -> None:
        """Relies on each of these being no other object of its type that was met; on a class as itself."""
        considered = (value for value in changed if not isinstance(value, ClassValue))
        chosen = {id(value): value for value in considered if value.source is not None}
        kinds: dict[tuple[type, type], tuple[list[Value], list[Value]]] = {}
        for value in chosen.values():
            kinds.setdefault(_kind(value), ([], []))[0].append(value)
        for value in self._values.values() if kinds else ():
            group = kinds.get(_kind(value))
            if group is not None and value.source is not None and id(value) not in chosen:
                group[1].append(value)
        for group in kinds.values():
            _rely_on_distinct_group(ctx, *group)

    def is_one_object(self, ctx: Tracer, left: Value, right: Value) -> bool:
        """True if ``is`` holds; relied on where another answer could come with the same values."""
        if isinstance(left, _BY_VALUE) and isinstance(right, _BY_VALUE) and left is not right:
            return left.python_type() is right.python_type() and self._are_one_number_or_text(ctx, left, right)
        same = left.identity() is right.identity()
        if not same:
            _rely_on_distinct(ctx, left, right)
        return same

    def _are_one_number_or_text(self, ctx: Tracer, left: Value, right: Value) -> bool:
        """True if two equal numbers or texts are one object, as CPython may have it either way."""
        first, second = self._object_of(ctx, left), self._object_of(ctx, right)
        known = isinstance(left, ConstantValue) and isinstance(right, ConstantValue)
        if left.source == right.source is not None:
            return True
        if not (known and (_is_the_only_one(first) or not _are_equal(first, second))):
            _rely_on_identity(ctx, (left.source, first), (right.source, second))
        return first is second

    def _object_of(self, ctx: Tracer, value: Value) -> object:
        """The number or text itself, as this call has it."""
        if isinstance(value, ConstantValue):
            return value.value
        if value.source is None:
            ctx.stop(Kind.IDENTITY, f"it is asked which object {value.describe()} is", "compare numbers with `==`")
        return value.source.read(self._inputs)

    def _comes_and_goes(self, source: Source, obj: object) -> bool:
        """True if later calls may well bring another object on this path: arguments do, what modules hold does not."""
        root = source.root()
        if not isinstance(root, ArgSource) or issubclass(type(obj), (torch.nn.Module, torch.nn.Parameter, type)):
            return False
        return root is source or not isinstance(self._inputs.args[root.index], torch.nn.Module)


def _kind(value: Value) -> tuple[type, type]:
    return type(value), value.python_type()


# Every pair would need a relation: beyond this many, each key is relied on as the object that it is.
_MOST_COMPARED = 8


class SearchedKeys:
    """Objects that are looked for by their identity, as keys of dicts and items of sets.

    Among keys made here it matters which are one object; among those of a dict outside, which objects they are.
    """

    def __init__(self) -> None:
        self._searched: dict[int, Value] = {}
        self._by_object = False

    def add(self, ctx: Tracer, value: Value) -> None:
        """Notes an object that is looked for, and relies on its being none of those before."""
        if id(value) in self._searched:
            return
        if len(self._searched) == _MOST_COMPARED:
            self.rely_on_objects(ctx)
        if self._by_object:
            _rely_on_object(ctx, value)
        else:
            for other in self._searched.values():
                _rely_on_another(ctx, value, other)
        self._searched[id(value)] = value

    def has_some(self) -> bool:
        return self._by_object or bool(self._searched)

    def rely_on_objects(self, ctx: Tracer) -> None:
        if not self._by_object:
            self._by_object = True
            for value in self._searched.values():
                _rely_on_object(ctx, value)


def _rely_on_object(ctx: Tracer, value: Value) -> None:
    found = value.obj if isinstance(value, TensorValue) else value.identity()
    if value.source is not None and found is not value:
        ctx.guard(value.source, GuardKind.IS, found)


def _rely_on_another(ctx: Tracer, left: Value, right: Value) -> None:
    first, second = left.source, right.source
    if first is None or second is None or left.python_type() is not right.python_type():
        return
    if not (isinstance(first, ConstSource) and isinstance(second, ConstSource)):
        rely_on_distinct_paths(ctx, [first], [second])


# Of what is known by its value, several equal objects may come; of all other constants, each is the only one, or a
# guard says which it is.
_COPIED = frozenset({int, float, complex, str, bytes, range, frozenset, torch.device})
_SMALL = range(-5, 257)


def _is_the_only_one(obj: Any) -> bool:
    """CPython has one object for each small number, and for each text that is empty or of one byte."""
    if type(obj) is int:
        return obj in _SMALL
    if type(obj) in (str, bytes):
        return len(obj) == 0 or (len(obj) == 1 and (type(obj) is bytes or ord(obj) < 256))
    return type(obj) not in _COPIED


def _are_equal(left: object, right: object) -> bool:
    return bool(left == right) or (differs_from_itself(left) and differs_from_itself(right))


def _rely_on_identity(ctx: Tracer, left: tuple[Source | None, object], right: tuple[Source | None, object]) -> None:
    """Relies on two numbers or texts being one object, or two.

    Of an object without a path the code that makes it, or has it as a constant, is relied on already.
    """
    if all(path is None or leads_through_fixed_code(path) for path, _ in (left, right)):
        return
    first, second = (ConstSource(obj, repr(obj)[:40]) if path is None else path for path, obj in (left, right))
    if left[1] is not right[1]:
        rely_on_distinct_paths(ctx, [first], [second])
    elif left[0] is None or right[0] is None:
        ctx.guard(left[0] or right[0], GuardKind.IS, left[1])
    else:
        ctx.guard(
            None, GuardKind.SAME, (first, second), None, None, text=f"{second.expression()} is {first.expression()}"
        )


def _rely_on_distinct(ctx: Tracer, left: Value, right: Value) -> None:
    """Rely on two paths leading to two objects; a library's code compares much that stays as it is."""
    first, second = left.source, right.source
    if first is None or second is None or (isinstance(first, ConstSource) and isinstance(second, ConstSource)):
        return
    if ctx.in_library() and not (comes_with_the_call(first) or comes_with_the_call(second)):
        return
    if isinstance(left, ConstantValue) or left.python_type() is not right.python_type():
        return
    rely_on_distinct_paths(ctx, [first], [second])


def _rely_on_distinct_group(ctx: Tracer, changed: Sequence[Value], others: Sequence[Value]) -> None:
    """Relies on the changed ones being neither each other nor one of the others.

    Tensors that are held elsewhere than in arguments are told apart by their memory.
    """
    coming, held = _by_origin(changed)
    other_coming, other_held = _by_origin(others)
    rely_on_distinct_paths(ctx, coming, [*held, *other_coming, *other_held])
    if any(isinstance(value, TensorValue) for value in changed):
        rely_on_distinct_paths(ctx, held, other_coming)
    else:
        rely_on_distinct_paths(ctx, held, [*other_coming, *other_held])


def rely_on_none_of(ctx: Tracer, values: Sequence[Value], others: Sequence[Value]) -> None:
    """Relies on some tensors being neither each other nor one of the others."""
    _rely_on_distinct_group(ctx, list(dict.fromkeys(values)), others)


def _by_origin(values: Sequence[Value]) -> tuple[list[Source], list[Source]]:
    """The paths that begin at an argument, and those that do not."""
    paths = [value.source for value in values if value.source is not None]
    return [path for path in paths if comes_with_the_call(path)], [p for p in paths if not comes_with_the_call(p)]


_NAMED = 3


def rely_on_distinct_paths(ctx: Tracer, first: Sequence[Source], rest: Sequence[Source]) -> None:
    """The first are different objects, and none of the rest is one of them."""
    sources = (*first, *rest)
    if not first or len(sources) < 2:
        return
    names = [source.expression() for source in sources]
    text = f"{names[0]} is not {names[1]}"
    if len(names) > 2:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = f"{', '.join(names[:_NAMED])}{more} are different objects"
    ctx.guard(None, GuardKind.DISTINCT, sources, len(first), None, text=text)
