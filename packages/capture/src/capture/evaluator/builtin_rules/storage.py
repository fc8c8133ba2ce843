"""The methods of builtin containers that subclasses reach through ``super()``, as the operators that they serve.

The builtin constructors are among them.
"""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from types import MappingProxyType

from capture.evaluator.builtin_rules.containers import update
from capture.evaluator.builtin_rules.registry import RULES, rule
from capture.evaluator.world import World
from capture.values.base import Tracer, Value, derives, realize
from capture.values.constant import NONE, NOT_IMPLEMENTED
from capture.values.container_object import STORAGE, contents_of
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, SequenceValue, SetValue

_OPERATORS: dict[str, Callable[..., object]] = {
    "__getitem__": operator.getitem, "__setitem__": operator.setitem, "__delitem__": operator.delitem,
    "__contains__": operator.contains, "__len__": len, "__iter__": iter, "__reversed__": reversed,
    "__eq__": operator.eq, "__ne__": operator.ne, "__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt,
    "__ge__": operator.ge, "__add__": operator.add, "__iadd__": operator.iadd, "__mul__": operator.mul,
    "__imul__": operator.imul, "__rmul__": operator.mul, "__or__": operator.or_, "__ior__": operator.ior,
    "__and__": operator.and_, "__sub__": operator.sub, "__xor__": operator.xor, "__repr__": repr, "__str__": str,
}  # fmt: skip


def _through(function: Callable[..., object]) -> Callable[..., Value]:
    """The rule that applies an operator to contents, past the methods of the subclass."""

    def apply(ctx: Tracer, *operands: Value) -> Value:
        return ctx.call_builtin(function, [contents_of(operand) for operand in operands], {})

    return apply


def _among(function: Callable[..., object], kinds: tuple[type, ...]) -> Callable[..., Value]:
    """The rule for a method that says NotImplemented of operands of other kinds, where the operator asks further."""

    def apply(ctx: Tracer, left: Value, right: Value) -> Value:
        other = realize(ctx, right).python_type()
        if not any(derives(other, kind) for kind in kinds):
            return NOT_IMPLEMENTED
        return ctx.call_builtin(function, [contents_of(left), contents_of(right)], {})

    return apply


_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_COMBINING = (*_COMPARISONS, "__or__", "__and__", "__sub__", "__xor__")
_COMBINED: dict[type, tuple[tuple[str, ...], tuple[type, ...]]] = {
    list: (_COMPARISONS, (list,)),
    tuple: (_COMPARISONS, (tuple,)),
    collections.deque: (_COMPARISONS, (collections.deque,)),
    dict: ((*_COMPARISONS, "__or__"), (dict,)),
    set: ((*_COMBINING, "__ior__"), (set, frozenset)),
}
"""The methods of a kind that take none but operands of kinds like it."""


def _register() -> None:
    for base in (*STORAGE, tuple, MappingProxyType):
        names, kinds = next((row for cls, row in _COMBINED.items() if issubclass(base, cls)), ((), ()))
        for name, function in _OPERATORS.items():
            member = vars(base).get(name)
            # Rules that are written for a method itself know more than the operator's.
            if member is not None and member not in RULES:
                taken = () if kinds == (dict,) and name in _COMPARISONS[2:] else kinds  # dicts have no order
                applied = _among(function, taken) if name in names else _through(function)
                rule(member, kinds=((SequenceValue, DictValue, SetValue),))(applied)


_register()


@rule(dict.__init__, collections.OrderedDict.__init__, kinds=(DictValue,))
def init_dict(ctx: World, contents: DictValue, other: Value | None = None, /, **named: Value) -> Value:
    return update(ctx, contents, other, **named)


@rule(collections.defaultdict.__init__, kinds=(DictValue,))
def init_defaultdict(
    ctx: World, contents: DictValue, factory: Value = NONE, other: Value | None = None, /, **named: Value
) -> Value:
    contents.default_factory = factory
    return update(ctx, contents, other, **named)


@rule(list.__init__, kinds=(ListValue,))
def init_list(ctx: Tracer, contents: ListValue, iterable: Value | None = None) -> Value:
    ctx.call_builtin(list.clear, [contents], {})
    return NONE if iterable is None else ctx.call_builtin(list.extend, [contents, iterable], {})


@rule(set.__init__, kinds=(SetValue,))
def init_set(ctx: Tracer, contents: SetValue, iterable: Value | None = None) -> Value:
    ctx.call_builtin(set.clear, [contents], {})
    return NONE if iterable is None else ctx.call_builtin(set.update, [contents, iterable], {})
