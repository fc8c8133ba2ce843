"""Operators: arithmetic, comparison and truth, by kinds of operands.

Rules for kinds come first (lists, tuples, dicts: below, and in ``indexing``); what none of them fits is asked of
``operators``, one of the families of ``dispatch``.  There a tensor beats a symbol, a symbol beats an object, in the
order of the questions.
"""

from __future__ import annotations

import collections
import contextlib
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import torch

from capture.evaluator.builtin_rules.equality import equality, sequence_kind, values_equal
from capture.evaluator.builtin_rules.formulas import compared, computed, is_of_floats, whole
from capture.evaluator.builtin_rules.registry import fold, pure, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.recording.operations import undecided
from capture.signals import let_through
from capture.values.base import Tracer, Value, derives, realize, type_name
from capture.values.classes import ClassValue
from capture.values.constant import NOT_IMPLEMENTED, ConstantValue, boolean
from capture.values.container_object import ContainerObject, leave_own_walk, leave_subclass, storage_class
from capture.values.descriptors import special
from capture.values.mapping import DictValue, DictView
from capture.values.own_methods import is_programs
from capture.values.sequence import ListValue, SequenceValue, SetValue, TupleValue
from capture.values.slots import has_code_for
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject, is_missing, lookup

BINARY: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
    "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul, "&=": operator.iand, "|=": operator.ior,
    "^=": operator.ixor, "<<=": operator.ilshift, ">>=": operator.irshift,
}  # fmt: skip
COMPARE: dict[str, Callable[..., Any]] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
"""The method of the right operand that is asked where the left one does not know: ``a < b`` is ``b > a``."""
_UNARY = {operator.neg: "__neg__", operator.pos: "__pos__", operator.invert: "__invert__", operator.abs: "__abs__"}
_ALL = {*BINARY.values(), *COMPARE.values(), *_UNARY}
_COMPARISONS = frozenset(COMPARE.values())
_MUTABLE = (ListValue, DictValue, SetValue)

pure(*_ALL, operator.index, operator.truth)


def plain_in_place(function: Callable[..., object]) -> Callable[..., object]:
    """The operator that an operator in place is on immutable operands: ``add`` for ``iadd``."""
    name = function.__name__
    # ``iadd`` without its i, but for two names that Python spells with an underscore.
    return getattr(operator, {"iand": "and_", "ior": "or_"}.get(name, name[1:])) if name in _IN_PLACE else function


_IN_PLACE = frozenset(f.__name__ for symbol, f in BINARY.items() if symbol.endswith("=") and symbol not in ("==",))


def operators(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of operators on operands that no rule knows: tensors, symbols, objects with special methods."""
    if not isinstance(function, type(operator.add)) or function not in _ALL:
        return None
    if any(isinstance(arg, TensorValue) for arg in args):
        # ``x += t`` of a number x makes a new tensor: nothing is changed in place.
        return ctx.record(function if isinstance(args[0], TensorValue) else plain_in_place(function), args, {})
    if any(isinstance(arg, UserObject) for arg in args):
        return _special_methods(ctx, function, args)
    if any(isinstance(arg, SymbolicNumber) for arg in args):
        return _symbolic(ctx, function, args)
    if function in (operator.eq, operator.ne):
        return equality(ctx, function, *args)
    if (
        all(isinstance(arg, _WITHOUT_ARITHMETIC) for arg in args)
        and len(args) == 2
        and not _in_place_union(function, args)
    ):
        _refuse(ctx, function, args)
    return None


def by_own_methods(ctx: World, function: object, args: Sequence[Value]) -> Value | None:
    """An operator on what is known otherwise than as an object, whose class has a method of the program's for it."""
    if not isinstance(function, type(operator.add)) or function not in _ALL or not any(map(_may_have_methods, args)):
        return None
    names = _asked_by(function)
    if not any(_may_have_methods(arg) and is_programs(arg.python_type(), *names) for arg in args):
        return None
    return _special_methods(ctx, function, args)


def _may_have_methods(value: Value) -> bool:
    """True for members of enums, named tuples and classes, whose class may be the program's."""
    return isinstance(value, _KNOWN_OTHERWISE) and value.python_type() not in _WITHOUT_OWN


_KNOWN_OTHERWISE = (ConstantValue, TupleValue, ClassValue)
_WITHOUT_OWN = frozenset({int, float, bool, complex, str, bytes, type(None), tuple, torch.Size, type})


def _asked_by(function: Callable[..., object]) -> tuple[str, ...]:
    """The special methods that an operator may ask of its operands."""
    if function in _UNARY:
        return (_UNARY[function],)
    name = plain_in_place(function).__name__.strip("_")
    if name in _REFLECTED:
        return (f"__{name}__", f"__{_REFLECTED[name]}__", "__eq__")
    return (f"__{name}__", f"__r{name}__", f"__{function.__name__.strip('_')}__")


def _refuse(ctx: Tracer, function: Any, args: Sequence[Value]) -> NoReturn:
    """Raises what Python raises for operands of these types, in its words."""
    if plain_in_place(function) is operator.mod and args[0].python_type() in (str, bytes):
        ctx.stop(Kind.BUILTIN, f"{args[0].describe()} is formatted with {args[1].describe()}")  # which it may well fit
    try:
        # Python is asked with empty containers of the same types: the words of a TypeError depend on types alone.
        samples = [arg.value if isinstance(arg, ConstantValue) else arg.python_type()() for arg in args]
    except TypeError:  # there is no empty one
        ctx.stop(Kind.BUILTIN, f"`{function.__name__}` of {args[0].describe()} and {args[1].describe()}")
    try:
        function(*samples)
    except TypeError as error:
        ctx.throw(TypeError, *error.args)
    except Exception as error:  # noqa: BLE001 - a sample may be refused for another reason than the operand would be
        let_through(error)
    ctx.stop(Kind.BUILTIN, f"`{function.__name__}` of {args[0].describe()} and {args[1].describe()}")


_WITHOUT_ARITHMETIC = (ConstantValue, SequenceValue, DictValue)


def _in_place_union(function: object, args: Sequence[Value]) -> bool:
    """True for operands that a union takes."""
    return all(isinstance(arg, (DictValue, SetValue, DictView)) for arg in args)


def _symbol(function: Any) -> str:
    for symbol, known in {**BINARY, **COMPARE}.items():
        if known is function:
            # So CPython writes it.
            return "** or pow()" if symbol == "**" else symbol
    return str(function.__name__)


def _symbolic(ctx: World, function: Any, args: Sequence[Value]) -> Value | None:
    """An operator on symbolic numbers: arithmetic of the graph, a condition, or a number of Python's."""
    if not all(isinstance(arg, SymbolicNumber) or _is_number(arg) for arg in args):
        others = [arg for arg in args if not isinstance(arg, SymbolicNumber)]
        if function in (operator.eq, operator.ne) and all(map(_is_no_number, others)):
            return boolean(function is operator.ne)
        # As a list repeated n times: the size becomes a constant of this version.
        return fold(ctx, function, [_specialized(arg) for arg in args], {})
    # Numbers have no operators in place.
    args, function = [whole(arg) for arg in args], plain_in_place(function)
    if is_of_floats(function, args):
        return (compared if function in _COMPARISONS else computed)(ctx, function, args)
    if function in _COMPARISONS:
        # The answer decides a branch: the shape environment notes the condition.
        operands = [arg.example if isinstance(arg, SymbolicNumber) else arg.constant() for arg in args]
        return boolean(bool(function(*operands)))
    if function in (operator.rshift, operator.lshift) and not _is_small(args[1]):
        # Torch's symbols take a power of two beyond 64 bits for infinity, and the quotient by it for a float.
        return fold(ctx, function, [_specialized(arg) for arg in args], {})
    if function in _DIVISIONS and isinstance(args[1], SymbolicNumber):
        # The sign is guarded: no kernel raises ZeroDivisionError, so a divisor has to be known to be positive.
        with contextlib.suppress(*undecided()):
            _ = bool(args[1].example > 0)
    return ctx.record(function, args, {})


_DIVISIONS = frozenset({operator.floordiv, operator.mod, operator.truediv})


def _is_small(amount: Value) -> bool:
    """True for a number of bits that keeps within a word."""
    return isinstance(amount, ConstantValue) and 0 <= amount.value < 63


def _is_number(value: Value) -> bool:
    return isinstance(value, ConstantValue) and isinstance(value.value, (int, float))


def _is_no_number(value: Value) -> bool:
    """True if no size is equal to it; a complex number or one of numpy's may be."""
    return not isinstance(value, ConstantValue) or isinstance(value.value, (str, bytes, type(None)))


def _specialized(value: Value) -> Value:
    return ConstantValue(value.specialized()) if isinstance(value, SymbolicNumber) else value


def _special_methods(ctx: Tracer, function: Any, args: Sequence[Value]) -> Value | None:
    """An operator by the special methods of its operands, in Python's order, and with Python's error."""
    name = function.__name__.strip("_")
    if function in _UNARY:
        return _try_method(ctx, args[0], _UNARY[function])
    left, right = args
    if _knows_first(function, left):
        ctx.stop(Kind.BUILTIN, f"`{_symbol(function)}` of {left.describe()} and {right.describe()}")
    attempts = _comparing(name, left, right) if name in _REFLECTED else _combining(function, left, right)
    for receiver, method, operand in attempts:
        if not any(isinstance(each, UserObject) for each in (receiver, operand)) and _may_answer(
            receiver, method, operand
        ):
            ctx.stop(Kind.SPECIAL_METHOD, f"`{_symbol(function)}` of {left.describe()} and {right.describe()}")
        # NotImplemented lets the next one try.
        answer = _try_method(ctx, receiver, method, operand)
        if answer is not None and answer is not NOT_IMPLEMENTED and not _not_implemented(answer):
            return answer
    if function in (operator.eq, operator.ne):
        # Where both sides pass, ``==`` is identity.
        return boolean(ctx.is_one_object(left, right) == (function is operator.eq))
    if not all(map(_is_bare, args)):
        ctx.stop(Kind.SPECIAL_METHOD, f"`{_symbol(function)}` of {left.describe()} and {right.describe()}")
    names = [type_name(arg.python_type()) for arg in args]
    if function in _COMPARISONS:
        text = f"'{_symbol(function)}' not supported between instances of '{names[0]}' and '{names[1]}'"
    else:
        text = f"unsupported operand type(s) for {_symbol(function)}: '{names[0]}' and '{names[1]}'"
    return ctx.throw(TypeError, text)


def _may_answer(value: Value, name: str, operand: Value) -> bool:
    """True if a method in C would be asked that may know the other operand; those of numbers know only numbers."""
    cls = value.python_type()
    if cls in _NUMBERS and isinstance(operand, ConstantValue) and not issubclass(operand.python_type(), _NUMBERS):
        return False
    member = lookup(cls, name)[1]
    return not is_missing(member) and member is not getattr(object, name, None) and not is_programs(cls, name)


_NUMBERS = (int, float, complex, bool)


def _knows_first(function: Callable[..., object], left: Value) -> bool:
    """True if the left operand takes any object, as a text that is formatted does, and the keys of a dict."""
    if isinstance(left, DictView):
        return plain_in_place(function) in (operator.and_, operator.or_, operator.sub, operator.xor)
    return plain_in_place(function) is operator.mod and left.python_type() in (str, bytes)


def _is_bare(value: Value) -> bool:
    """True if nothing written in C may accept another kind of operand, or refuse it in words of its own.

    A text formats any object, and a sequence is repeated by whatever has an ``__index__``.
    """
    if not isinstance(value, UserObject):
        return value.python_type() in (int, float, complex, bool, type(None))
    *classes, root, _ = (object, *value.cls.__mro__)
    return all(cls is object or cls.__flags__ & _MADE_AT_RUN_TIME for cls in (*classes, root)) and (
        root is object or not vars(root).keys().isdisjoint(_OF_PYTHONS_CLASSES)
    )


_MADE_AT_RUN_TIME = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_OF_PYTHONS_CLASSES = frozenset({"__dict__", "__weakref__", "__slots__"})
_Attempt = tuple[Value, str, Value]


def _comparing(name: str, left: Value, right: Value) -> list[_Attempt]:
    """The methods that a comparison asks, in their order."""
    direct, reflected = (left, f"__{name}__", right), (right, f"__{_REFLECTED[name]}__", left)
    # The method of a derived class is asked first, though it stands on the right.
    first = right.python_type() is not left.python_type() and derives(right.python_type(), left.python_type())
    return [reflected, direct] if first else [direct, reflected]


def _combining(function: Any, left: Value, right: Value) -> list[_Attempt]:
    """The methods that an operation asks, in their order; among operands of one type none is reflected."""
    name, cls, other = plain_in_place(function).__name__.strip("_"), left.python_type(), right.python_type()
    direct, reflected = (left, f"__{name}__", right), (right, f"__r{name}__", left)
    if cls is other:
        attempts = [direct]
    # Likewise for arithmetic, but only where the derived class has another method than its base.
    elif derives(other, cls) and lookup(other, reflected[1])[1] is not lookup(cls, reflected[1])[1]:
        attempts = [reflected, direct]
    else:
        attempts = [direct, reflected]
    if function is operator.imul and _repeats_nothing(cls, other):
        attempts.remove(reflected)
    # ``__iadd__`` first, then as ``__add__``.
    return [(left, f"__{function.__name__}__", right), *attempts] if function.__name__ in _IN_PLACE else attempts


def _repeats_nothing(cls: type, other: type) -> bool:
    """True if a sequence is the second operand of ``*=`` and the first one of a class that is made at run time.

    CPython takes any such class for that of a sequence, which is not repeated by a sequence.
    """
    repeat = lookup(other, "__rmul__")[1]
    return bool(cls.__flags__ & _MADE_AT_RUN_TIME) and getattr(repeat, "__objclass__", None) in _SEQUENCES


_SEQUENCES = frozenset({list, tuple, str, bytes, bytearray, collections.deque})


def _not_implemented(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is NotImplemented


def _try_method(ctx: Tracer, receiver: Value, name: str, *operands: Value) -> Value | None:
    """The answer of a special method; None where the operand has none that the evaluation need ask."""
    if not isinstance(receiver, UserObject):
        own = _may_have_methods(receiver) and is_programs(receiver.python_type(), name)
        method = special(ctx, receiver, name) if own else None
        return None if method is None else realize(ctx, ctx.call(method, operands))
    members: dict[str, object] = {known: getattr(receiver.cls, known) for known in ("__eq__", "__ne__")}
    # Those of ``object`` say nothing that ``_special_methods`` does not; ``__ne__`` of ``object`` turns ``__eq__``
    # round.
    if name in members and members[name] is getattr(object, name):
        if name == "__ne__" and members["__eq__"] is not getattr(object, "__eq__"):  # noqa: B009
            equal = _try_method(ctx, receiver, "__eq__", *operands)
            return equal if equal is None or _not_implemented(equal) else boolean(not equal.truth(ctx))
        return None
    method = receiver.special(ctx, name)
    if method is None:
        return None
    if isinstance(receiver, ContainerObject) and name not in members:
        _insist_on_the_same_kind(ctx, receiver, name, operands)
    return realize(ctx, ctx.call(method, operands))


_REPEATS = frozenset({"__mul__", "__rmul__", "__imul__"})


def _insist_on_the_same_kind(ctx: Tracer, receiver: ContainerObject, name: str, operands: Sequence[Value]) -> None:
    """Breaks the graph where a container's own method would say `NotImplemented`, as its rule here raises."""
    kind = int if name in _REPEATS else storage_class(receiver.cls)
    if not has_code_for(receiver.cls, name) and not all(derives(operand.python_type(), kind) for operand in operands):
        ctx.stop(Kind.SPECIAL_METHOD, f"`{name}` of {receiver.describe()} is called with {operands[0].describe()}")


# -- sequences ---------------------------------------------------------------------------------------------------


@rule(operator.add, kinds=(ListValue, ListValue))
def add_lists(ctx: Tracer, left: ListValue, right: ListValue) -> Value:
    if left.cls is not right.cls:
        _refuse(ctx, operator.add, [left, right])
    return _like(ctx, left, [*left.items, *right.items])


def _like(ctx: Tracer, items: ListValue, contents: Sequence[Value]) -> ListValue:
    """A new list, or a new deque of the same bound."""
    leave_subclass(ctx, items)
    made = ListValue(contents, cls=items.cls)
    made.maxlen = items.maxlen
    if made.maxlen is not None:
        del made.items[: max(len(made.items) - made.maxlen, 0)]
    return made


@rule(operator.add, operator.iadd, kinds=(TupleValue, TupleValue))
def add_tuples(ctx: Tracer, left: TupleValue, right: TupleValue) -> Value:
    return _tuple(ctx, [*left.items, *right.items], type(_empty(left.cls) + _empty(right.cls)))


def _empty(cls: type) -> tuple[object, ...]:
    """An empty one, to ask torch itself whether a sum or product of sizes is a size: its releases differ."""
    return torch.Size() if cls is torch.Size else ()


def _tuple(ctx: Tracer, items: Sequence[Value], cls: type) -> TupleValue:
    """A tuple of this class; a ``torch.Size`` holds nothing but numbers."""
    if cls is torch.Size and any(item.python_type() is not int for item in items):
        ctx.stop(Kind.SIZE, "a size is extended by what is no number")
    return TupleValue(items, cls=cls)


@rule(operator.iadd, kinds=(ListValue, None))
def extend_in_place(ctx: Tracer, left: ListValue, right: Value) -> Value:
    reflected = _try_method(ctx, right, "__radd__", left)  # this is asked before a list's own way of growing
    if reflected is not None and not _not_implemented(reflected):
        return reflected
    ctx.call_builtin(list.extend, [left, right], {})
    return left


@rule(operator.mul, kinds=(SequenceValue, ConstantValue))
def repeat(ctx: Tracer, items: SequenceValue, count: ConstantValue) -> Value:
    times = _times(ctx, items, count)
    if isinstance(items, ListValue):
        return _like(ctx, items, items.items * times)
    # An exact tuple times one is itself, as in CPython; programs may ask with ``is``.
    if times == 1 and items.cls is tuple:
        return items
    return _tuple(ctx, items.items * times, type(_empty(items.cls) * times))


def _times(ctx: Tracer, items: SequenceValue, count: ConstantValue) -> int:
    """The number of times that a sequence is repeated, where that makes no huge one."""
    if not hasattr(type(count.value), "__index__"):
        _refuse(ctx, operator.mul, [ListValue([]), count])
    times = operator.index(count.value)
    if times * len(items.items) > _LONGEST:
        ctx.stop(Kind.SIZE, f"a sequence of {times * len(items.items)} items is made")
    return times


_LONGEST = 1_000_000


@rule(operator.imul, kinds=(TupleValue, ConstantValue))
def repeat_tuple_in_place(ctx: World, items: TupleValue, count: ConstantValue) -> Value:
    return repeat(ctx, items, count)


@rule(operator.imul, kinds=(ListValue, ConstantValue))
def repeat_in_place(ctx: Tracer, items: ListValue, count: ConstantValue) -> Value:
    times = _times(ctx, items, count)
    if items.maxlen is not None:
        ctx.stop(Kind.CONTAINER, "a deque of limited length is repeated in place")
    ctx.changed(items)
    items.moves += times != 1 and bool(items.items)
    items.items = _like(ctx, items, items.items * times).items
    return items


@rule(operator.mul, kinds=(ConstantValue, SequenceValue))
def repeat_reflected(ctx: World, count: ConstantValue, items: SequenceValue) -> Value:
    if not hasattr(type(count.value), "__index__"):
        _refuse(ctx, operator.mul, [count, items])
    return repeat(ctx, items, count)


def _ordered(function: Any) -> Callable[[Tracer, SequenceValue, SequenceValue], Value]:
    """The rule for one of the comparisons of sequences."""

    def compare(ctx: Tracer, left: SequenceValue, right: SequenceValue) -> Value:
        if sequence_kind(left) is not sequence_kind(right):
            _refuse(ctx, function, [left, right])
        # The first pair that differs decides; where none does, the lengths.
        for a, b in zip(left.items, right.items, strict=False):
            if not values_equal(ctx, a, b):
                return ctx.call_builtin(function, [a, b], {})
        return boolean(function(len(left.items), len(right.items)))

    return compare


for _comparison in (operator.lt, operator.le, operator.gt, operator.ge):
    rule(_comparison, kinds=(SequenceValue, SequenceValue))(_ordered(_comparison))


# -- truth -------------------------------------------------------------------------------------------------------


@rule(operator.not_, kinds=(None,))
def negate(ctx: Tracer, value: Value) -> Value:
    return boolean(not value.truth(ctx))


@rule(operator.index, kinds=(UserObject,))
def object_as_index(ctx: Tracer, value: UserObject) -> Value:
    """``operator.index`` of an object."""
    if issubclass(value.cls, int) and value.cls.__index__ is not int.__index__:  # which nobody asks
        ctx.stop(Kind.INDEX, f"{value.describe()} is an integer with an `__index__` of its own")
    said = value.answer(ctx, "__index__", int)
    if said is None:
        ctx.throw(TypeError, f"'{type_name(value.cls)}' object cannot be interpreted as an integer")
    return said


@rule(operator.or_, kinds=(DictValue, DictValue))
def merge(ctx: Tracer, left: DictValue, right: DictValue) -> Value:
    """``|`` of two dicts."""
    if MappingProxyType in (left.cls, right.cls):
        return ctx.stop(Kind.BUILTIN, "`|` of a read-only mapping")
    if left.cls is not right.cls:
        return ctx.stop(Kind.BUILTIN, "`|` of mappings of two classes")
    leave_subclass(ctx, left, right)
    leave_own_walk(ctx, left, right)
    merged = DictValue(cls=left.cls)
    merged.default_factory = left.default_factory
    # Of equal keys the left one stays, with the value of the right one.
    taken = {hashed: (left.entries.get(hashed, entry)[0], entry[1]) for hashed, entry in right.entries.items()}
    merged.entries = {**left.entries, **taken}
    return merged
