"""Operators: arithmetic, comparison, membership, indexing and truth, by kinds of operands.

Rules for kinds come first (lists, tuples, dicts: below); what none of them fits is asked of ``operators``, one of the
families of ``dispatch``.  There a tensor beats a symbol, a symbol beats an object, in the order of the questions.
"""

from __future__ import annotations

import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import torch

from capture.evaluator.builtin_rules.formulas import compared, computed, is_of_floats, whole
from capture.evaluator.builtin_rules.registry import fold, pure, rule
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.base import Tracer, Value, derives, held_by, realize, type_name
from capture.values.classes import ClassValue, PythonModuleValue
from capture.values.constant import NONE, NOT_IMPLEMENTED, ConstantValue, boolean, differs_from_itself
from capture.values.container_object import leave_subclass
from capture.values.function import BuiltinValue, CellValue, FunctionValue, PartialValue
from capture.values.iterator import IteratorValue
from capture.values.mapping import DictValue, DictView, key_of
from capture.values.own_methods import own_method
from capture.values.sequence import ListValue, SequenceValue, SetValue, SliceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject, lookup

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
"""What the right operand is asked where the left one does not know: ``a < b`` is ``b > a``."""
_UNARY = {operator.neg: "__neg__", operator.pos: "__pos__", operator.invert: "__invert__", operator.abs: "__abs__"}
_ALL = {*BINARY.values(), *COMPARE.values(), *_UNARY}
_COMPARISONS = frozenset(COMPARE.values())
_MUTABLE = (ListValue, DictValue, SetValue)

pure(*_ALL, operator.index, operator.truth)


def plain_in_place(function: Callable[..., object]) -> Callable[..., object]:
    """``iadd`` on immutable operands is ``add``."""
    name = function.__name__
    # ``iadd`` without its i, but for two names that Python spells with an underscore.
    return getattr(operator, {"iand": "and_", "ior": "or_"}.get(name, name[1:])) if name in _IN_PLACE else function


_IN_PLACE = frozenset(f.__name__ for symbol, f in BINARY.items() if symbol.endswith("=") and symbol not in ("==",))


def operators(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """Operators on operands that no rule knows: tensors, symbolic numbers, objects with special methods."""
    if not isinstance(function, type(operator.add)) or function not in _ALL:
        return None
    if any(isinstance(arg, TensorValue) for arg in args):
        # ``x += t`` of a number x makes a new tensor: nothing is changed in place.
        return ctx.record(function if isinstance(args[0], TensorValue) else plain_in_place(function), args, {})
    if any(isinstance(arg, SymbolicNumber) for arg in args):
        return _symbolic(ctx, function, args)
    if any(isinstance(arg, UserObject) for arg in args):
        return _special_methods(ctx, function, args)
    if function in (operator.eq, operator.ne):
        return _equality(ctx, function, *args)
    if (
        all(isinstance(arg, _WITHOUT_ARITHMETIC) for arg in args)
        and len(args) == 2
        and not _in_place_union(function, args)
    ):
        _refuse(ctx, function, args)
    return None


def _refuse(ctx: Tracer, function: Any, args: Sequence[Value]) -> NoReturn:
    """Raise what Python raises for operands of these types, in its words."""
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
    return all(isinstance(arg, (DictValue, SetValue, DictView)) for arg in args)


def _symbol(function: Any) -> str:
    for symbol, known in {**BINARY, **COMPARE}.items():
        if known is function:
            # So CPython writes it.
            return "** or pow()" if symbol == "**" else symbol
    return str(function.__name__)


def _symbolic(ctx: World, function: Any, args: Sequence[Value]) -> Value | None:
    if not all(isinstance(arg, SymbolicNumber) or _is_number(arg) for arg in args):
        # A size is never equal to what is no number.
        if function in (operator.eq, operator.ne):
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
    return ctx.record(function, args, {})


def _is_number(value: Value) -> bool:
    return isinstance(value, ConstantValue) and isinstance(value.value, (int, float))


def _specialized(value: Value) -> Value:
    return ConstantValue(value.specialized()) if isinstance(value, SymbolicNumber) else value


def _special_methods(ctx: Tracer, function: Any, args: Sequence[Value]) -> Value | None:
    name = function.__name__.strip("_")
    if function in _UNARY:
        return _try_method(ctx, args[0], _UNARY[function])
    left, right = args
    attempts = _comparing(name, left, right) if name in _REFLECTED else _combining(function, left, right)
    for receiver, method, operand in attempts:
        # NotImplemented lets the next one try.
        answer = _try_method(ctx, receiver, method, operand)
        if answer is not None and answer is not NOT_IMPLEMENTED and not _not_implemented(answer):
            return answer
    if function in (operator.eq, operator.ne):
        # Where both sides pass, ``==`` is identity.
        return boolean(ctx.is_one_object(left, right) == (function is operator.eq))
    names = [arg.python_type().__name__ for arg in args]
    if function in _COMPARISONS:
        text = f"'{_symbol(function)}' not supported between instances of '{names[0]}' and '{names[1]}'"
    else:
        text = f"unsupported operand type(s) for {_symbol(function)}: '{names[0]}' and '{names[1]}'"
    return ctx.throw(TypeError, text)


_Attempt = tuple[Value, str, Value]


def _comparing(name: str, left: Value, right: Value) -> list[_Attempt]:
    direct, reflected = (left, f"__{name}__", right), (right, f"__{_REFLECTED[name]}__", left)
    # The method of a derived class is asked first, though it stands on the right.
    first = right.python_type() is not left.python_type() and derives(right.python_type(), left.python_type())
    return [reflected, direct] if first else [direct, reflected]


def _combining(function: Any, left: Value, right: Value) -> list[_Attempt]:
    """The methods in the order in which they are asked; among operands of one type none is reflected."""
    name, cls, other = plain_in_place(function).__name__.strip("_"), left.python_type(), right.python_type()
    direct, reflected = (left, f"__{name}__", right), (right, f"__r{name}__", left)
    if cls is other:
        attempts = [direct]
    # Likewise for arithmetic, but only where the derived class has another method than its base.
    elif derives(other, cls) and lookup(other, reflected[1])[1] is not lookup(cls, reflected[1])[1]:
        attempts = [reflected, direct]
    else:
        attempts = [direct, reflected]
    # ``__iadd__`` first, then as ``__add__``.
    return [(left, f"__{function.__name__}__", right), *attempts] if function.__name__ in _IN_PLACE else attempts


def _not_implemented(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is NotImplemented


def _try_method(ctx: Tracer, receiver: Value, name: str, *operands: Value) -> Value | None:
    if not isinstance(receiver, UserObject):
        return None
    members: dict[str, object] = {known: getattr(receiver.cls, known) for known in ("__eq__", "__ne__")}
    # Those of ``object`` say nothing that ``_special_methods`` does not; ``__ne__`` of ``object`` turns ``__eq__``
    # round.
    if name in members and members[name] is getattr(object, name):
        if name == "__ne__" and members["__eq__"] is not getattr(object, "__eq__"):  # noqa: B009
            equal = _try_method(ctx, receiver, "__eq__", *operands)
            return equal if equal is None or _not_implemented(equal) else boolean(not equal.truth(ctx))
        return None
    method = receiver.special(ctx, name)
    return None if method is None else ctx.call(method, operands)


# -- equality of containers --------------------------------------------------------------------------------------


def _equality(ctx: Tracer, function: object, left: Value, right: Value) -> Value:
    return boolean(values_equal(ctx, left, right) == (function is operator.eq))


def values_equal(ctx: Tracer, left: Value, right: Value) -> bool:
    """``left is right or left == right``, as containers compare their items."""
    left, right = realize(ctx, left), realize(ctx, right)
    # NaN is equal only as the same object.
    if isinstance(left, ConstantValue) and differs_from_itself(left.value):
        return ctx.is_one_object(left, right)
    # Containers do not ask ``==`` of one and the same object.
    if left.identity() is right.identity():
        return True
    if isinstance(left, SequenceValue) and isinstance(right, SequenceValue):
        return _sequences_equal(ctx, left, right)
    if isinstance(left, DictValue) and isinstance(right, DictValue):
        return _dicts_equal(ctx, left, right)
    if isinstance(left, SliceValue) and isinstance(right, SliceValue):
        return _sequences_equal(ctx, _as_tuple(left), _as_tuple(right))
    # Views of keys and of items compare as sets, with sets, too.
    keys = keys_like_a_set(ctx, left), keys_like_a_set(ctx, right)
    if keys[0] is not None and keys[1] is not None:
        return keys[0].keys() == keys[1].keys()
    if any(isinstance(side, (TensorValue, SymbolicNumber, UserObject)) for side in (left, right)):
        return ctx.call_builtin(operator.eq, [left, right], {}).truth(ctx)
    # From here on the answer is computed with the real objects, so no code of the program may have a say.
    _insist_on_known_equality(ctx, left, right)
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        return bool(left.value == right.value)
    # What is left of these kinds has ``==`` of ``object``, or is of another type.
    if isinstance(left, _COMPARED_BY_KIND) and isinstance(right, _COMPARED_BY_KIND):
        return ctx.is_one_object(left, right)
    return ctx.stop(Kind.COMPARISON, f"{left.describe()} is compared with {right.describe()}")


def _insist_on_known_equality(ctx: Tracer, *sides: Value) -> None:
    for side in sides:
        if not isinstance(side, (ConstantValue, ClassValue, PythonModuleValue)):
            continue
        if (method := own_method(side.constant(), "__eq__", "__ne__")) is not None:
            ctx.stop(Kind.SPECIAL_METHOD, f"`{method}` of {side.describe()} is the program's own")


def _as_tuple(value: SliceValue) -> TupleValue:
    """Slices compare as tuples of their parts."""
    return TupleValue(value.parts())


# Values of two of these kinds are never equal where the code above did not say so.
_COMPARED_BY_KIND: tuple[type[Value], ...] = (
    ConstantValue, SequenceValue, DictValue, DictView, SetValue, SliceValue, IteratorValue,
    FunctionValue, BuiltinValue, ClassValue, CellValue, PythonModuleValue, PartialValue,
)  # fmt: skip


def keys_like_a_set(ctx: Tracer, value: Value) -> dict[object, Value] | None:
    """The items of a set, of a frozenset or of a view of keys, by what they hash as."""
    if isinstance(value, SetValue):
        return value.entries
    if isinstance(value, DictView) and value.which == "keys":
        return {hashed: key for hashed, (key, _) in value.owner.entries.items()}
    if isinstance(value, DictView) and value.which == "items":
        pairs = [TupleValue(pair) for pair in value.owner.entries.values()]
        return {key_of(ctx, pair): pair for pair in pairs}
    if isinstance(value, ConstantValue) and isinstance(value.value, frozenset):
        return {item: ctx.literal(item) for item in value.value}
    return None


def _sequences_equal(ctx: Tracer, left: SequenceValue, right: SequenceValue) -> bool:
    if _sequence_kind(left) is not _sequence_kind(right) or len(left.items) != len(right.items):
        return False
    return all(values_equal(ctx, a, b) for a, b in zip(left.items, right.items, strict=True))


def _sequence_kind(value: SequenceValue) -> type:
    """Sequences compare with those of the same kind only."""
    return value.cls if isinstance(value, ListValue) else tuple


def _dicts_equal(ctx: Tracer, left: DictValue, right: DictValue) -> bool:
    if left.entries.keys() != right.entries.keys():
        return False
    # Two of them compare in order; one beside a dict does not.
    if left.cls is right.cls is OrderedDict and list(left.entries) != list(right.entries):
        return False
    return all(values_equal(ctx, value, right.entries[key][1]) for key, (_, value) in left.entries.items())


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
    """Which sums and products of sizes are sizes differs between torch's releases."""
    return torch.Size() if cls is torch.Size else ()


def _tuple(ctx: Tracer, items: Sequence[Value], cls: type) -> TupleValue:
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
    return repeat(ctx, items, count)


def _ordered(function: Any) -> Callable[[Tracer, SequenceValue, SequenceValue], Value]:
    def compare(ctx: Tracer, left: SequenceValue, right: SequenceValue) -> Value:
        if _sequence_kind(left) is not _sequence_kind(right):
            _refuse(ctx, function, [left, right])
        # The first pair that differs decides; where none does, the lengths.
        for a, b in zip(left.items, right.items, strict=False):
            if not values_equal(ctx, a, b):
                return ctx.call_builtin(function, [a, b], {})
        return boolean(function(len(left.items), len(right.items)))

    return compare


for _comparison in (operator.lt, operator.le, operator.gt, operator.ge):
    rule(_comparison, kinds=(SequenceValue, SequenceValue))(_ordered(_comparison))


# -- indexing ----------------------------------------------------------------------------------------------------


def _refuse_slices_of_deques(ctx: Tracer, items: SequenceValue) -> None:
    if items.cls is deque:
        ctx.throw(TypeError, "sequence index must be integer, not 'slice'")


@rule(operator.getitem, kinds=(SequenceValue, SliceValue))
def slice_sequence(ctx: Tracer, items: SequenceValue, index: SliceValue) -> Value:
    _refuse_slices_of_deques(ctx, items)
    # A whole slice of a tuple is the tuple itself.
    chosen = items.items[slice_of(ctx, index)]
    if items.cls is tuple and len(chosen) == len(items.items) and not isinstance(items, ListValue):
        return items if index.step is NONE else TupleValue(chosen)
    if isinstance(items, ListValue):
        return ListValue(chosen)
    return TupleValue(chosen, cls=items.cls if items.cls.__name__ == "Size" else tuple)


@rule(operator.getitem, kinds=(SequenceValue, None))
def index_sequence(ctx: Tracer, items: SequenceValue, index: Value) -> Value:
    position = _position(ctx, items, index)
    if not -len(items.items) <= position < len(items.items):
        kind = next(cls for cls in (list, deque, tuple) if issubclass(items.python_type(), cls))
        ctx.throw(IndexError, f"{kind.__name__} index out of range")
    return items.item(ctx, position)


@rule(operator.setitem, kinds=(ListValue, SliceValue, None))
def assign_slice(ctx: Tracer, items: ListValue, index: SliceValue, value: Value) -> Value:
    _refuse_slices_of_deques(ctx, items)
    chosen = slice_of(ctx, index)
    # Made a list first, as in C: ``a[1:] = a`` reads all of it before anything moves.
    assigned = ctx.call_builtin(list, [value], {}).elements(ctx)
    ctx.changed(items)
    try:
        items.items[chosen] = assigned
    except ValueError as error:  # an extended slice of another length
        ctx.throw(ValueError, *error.args)
    return ConstantValue(None)


@rule(operator.setitem, kinds=(ListValue, None, None))
def assign_item(ctx: Tracer, items: ListValue, index: Value, value: Value) -> Value:
    position = _position(ctx, items, index)
    if not -len(items.items) <= position < len(items.items):
        ctx.throw(IndexError, "list assignment index out of range")
    ctx.changed(items)
    items.items[position] = value
    return ConstantValue(None)


@rule(operator.delitem, kinds=(ListValue, None))
def delete_item(ctx: Tracer, items: ListValue, index: Value) -> Value:
    if isinstance(index, SliceValue):
        _refuse_slices_of_deques(ctx, items)
    chosen: Any = slice_of(ctx, index) if isinstance(index, SliceValue) else _position(ctx, items, index)
    if isinstance(chosen, int) and not -len(items.items) <= chosen < len(items.items):
        ctx.throw(IndexError, "list assignment index out of range")
    ctx.changed(items)
    # Deques' iterators notice.
    items.moves += 1
    del items.items[chosen]
    return ConstantValue(None)


def index_of(ctx: Tracer, value: Value) -> int:
    """``operator.index``."""
    value = realize(ctx, value)
    if isinstance(value, SymbolicNumber):
        return int(value.specialized())
    answer = ctx.call_builtin(operator.index, [value], {})
    position = answer.constant()
    assert isinstance(position, int)
    return position


def _position(ctx: Tracer, items: SequenceValue, index: Value) -> int:
    if not isinstance(index, SymbolicNumber) and held_by(index.python_type(), "__index__") is None:
        name, kind = type_name(index.python_type()), "list" if issubclass(items.python_type(), list) else "tuple"
        if issubclass(items.python_type(), deque):
            ctx.throw(TypeError, f"sequence index must be integer, not '{name}'")
        ctx.throw(TypeError, f"{kind} indices must be integers or slices, not {name}")
    return index_of(ctx, index)


def slice_of(ctx: Tracer, value: SliceValue) -> slice:
    parts = [realize(ctx, part) for part in value.parts()]
    if isinstance(parts[2], ConstantValue) and parts[2].value == 0:
        ctx.throw(ValueError, "slice step cannot be zero")
    return slice(*(None if _is_none(part) else index_of(ctx, part) for part in parts))


def _is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


@rule(operator.getitem, kinds=(DictValue, None))
def index_dict(ctx: Tracer, mapping: DictValue, key: Value) -> Value:
    found = mapping.get(ctx, key)
    if found is not None:
        return found
    # A subclass of ``dict`` may have a ``__missing__``; ``defaultdict`` has one in C, which is the factory below.
    if isinstance(mapping.whole, UserObject):
        missing = mapping.whole.special(ctx, "__missing__")
        if missing is not None:
            return ctx.call(missing, [key])
    if mapping.default_factory is not None and not _is_none(mapping.default_factory):
        made = ctx.call(mapping.default_factory, [])
        # Stored before it is given: whoever asks again gets the same object.
        mapping.put(ctx, key, made)
        return made
    return ctx.throw(KeyError, key)


@rule(operator.setitem, kinds=(DictValue, None, None))
def assign_key(ctx: Tracer, mapping: DictValue, key: Value, value: Value) -> Value:
    mapping.put(ctx, key, value)
    return ConstantValue(None)


@rule(operator.delitem, kinds=(DictValue, None))
def delete_key(ctx: Tracer, mapping: DictValue, key: Value) -> Value:
    if mapping.remove(ctx, key) is None:
        ctx.throw(KeyError, key)
    return ConstantValue(None)


@rule(operator.getitem, kinds=(ConstantValue, SliceValue))
@rule(operator.getitem, kinds=(ConstantValue, ConstantValue))
def index_constant(ctx: Tracer, value: ConstantValue, index: Value) -> Value:
    folded = fold(ctx, operator.getitem, [value, index], {})
    if folded is None:
        assert isinstance(index, SliceValue)  # its bounds are objects with an `__index__`
        folded = fold(ctx, operator.getitem, [value, ConstantValue(slice_of(ctx, index))], {})
    assert folded is not None
    return folded


def _object_item(name: str) -> Callable[..., Value]:
    def through_method(ctx: Tracer, owner: UserObject, *operands: Value) -> Value:
        method = owner.special(ctx, name)
        if method is None:
            ctx.throw(TypeError, f"'{owner.cls.__name__}' object {_ITEM_ERRORS[name]}")
        return ctx.call(method, operands)

    return through_method


_ITEM_ERRORS = {
    "__getitem__": "is not subscriptable",
    "__setitem__": "does not support item assignment",
    "__delitem__": "does not support item deletion",
}
rule(operator.getitem, kinds=(UserObject, None))(_object_item("__getitem__"))
rule(operator.setitem, kinds=(UserObject, None, None))(_object_item("__setitem__"))
rule(operator.delitem, kinds=(UserObject, None))(_object_item("__delitem__"))


# -- truth -------------------------------------------------------------------------------------------------------


@rule(operator.not_, kinds=(None,))
def negate(ctx: Tracer, value: Value) -> Value:
    return boolean(not value.truth(ctx))


@rule(operator.index, kinds=(UserObject,))
def object_as_index(ctx: Tracer, value: UserObject) -> Value:
    if issubclass(value.cls, int) and value.cls.__index__ is not int.__index__:  # which nobody asks
        ctx.stop(Kind.INDEX, f"{value.describe()} is an integer with an `__index__` of its own")
    said = value.answer(ctx, "__index__", int)
    if said is None:
        ctx.throw(TypeError, f"'{value.cls.__name__}' object cannot be interpreted as an integer")
    return said


@rule(operator.or_, kinds=(DictValue, DictValue))
def merge(ctx: Tracer, left: DictValue, right: DictValue) -> Value:
    if MappingProxyType in (left.cls, right.cls):
        return ctx.stop(Kind.BUILTIN, "`|` of a read-only mapping")
    if left.cls is not right.cls:
        return ctx.stop(Kind.BUILTIN, "`|` of mappings of two classes")
    leave_subclass(ctx, left, right)
    merged = DictValue(cls=left.cls)
    merged.default_factory = left.default_factory
    merged.entries = {**left.entries, **right.entries}
    return merged
