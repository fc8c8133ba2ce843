"""The table: (function, kinds of operands) to a small rule.

``call_builtin`` walks the rules of a function in the order in which they were written and takes the first whose kinds
match.
Functions without a fitting rule are folded where they are pure and all operands constant, recorded where they are
torch's, and
otherwise left to CPython.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

from capture.signals import let_through
from capture.values.base import NotConstant, Tracer, Value, module_name, realize
from capture.values.constant import differs_from_itself
from capture.values.container_object import STORAGE, contents_of
from capture.values.own_methods import asked_method

Kinds = tuple[Any, ...]
Rule = Callable[..., Value]
RULES: dict[Any, list[tuple[Kinds, Rule]]] = {}
PURE: set[Any] = set()
Fallback = Callable[[Tracer, Any, Sequence[Value], Mapping[str, Value]], Value | None]
FALLBACKS: list[tuple[int, Fallback]] = []


def rule(*functions: Any, kinds: Kinds = ()) -> Callable[[Rule], Rule]:
    """Registers a rule for ``functions`` where each operand is of its kind; None stands for any value."""

    def register(handler: Rule) -> Rule:
        for function in functions:
            RULES.setdefault(function, []).append((kinds, handler))
        return handler

    return register


def fallback(order: int) -> Callable[[Fallback], Fallback]:
    """Registers a rule for whole families of functions, tried by ``order`` after the table; None declines."""

    def register(handler: Fallback) -> Fallback:
        FALLBACKS.append((order, handler))
        FALLBACKS.sort(key=lambda entry: entry[0])
        return handler

    return register


def pure(*functions: Any) -> None:
    """Marks functions whose answer depends on nothing but constant operands."""
    PURE.update(functions)


def call_builtin(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    args = [realize(ctx, arg) for arg in args]
    kwargs = {name: realize(ctx, value) for name, value in kwargs.items()}
    owner = None if not args or isinstance(function, type) else getattr(function, "__objclass__", None)
    if owner not in STORAGE:
        return _call(ctx, function, args, kwargs)
    _insist_on_a_receiver(ctx, function, owner, args[0].python_type())
    receiver, args[0] = args[0], contents_of(args[0])
    answer = _call(ctx, function, args, kwargs)
    return receiver if answer is args[0] else answer  # what gives itself gives the whole object


def _call(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    for kinds, handler in _rules_of(function):
        if _fits(kinds, args):
            return _apply(ctx, function, handler, args, kwargs)
    if _hashable_in(function, PURE):
        folded = fold(ctx, function, args, kwargs)
        if folded is not None:
            return folded
    for _, family in FALLBACKS:
        answer = family(ctx, function, args, kwargs)
        if answer is not None:
            return answer
    return ctx.stop(
        "builtin",
        f"{name_of(function)} is called on {operand_words(args)}, which capture cannot evaluate",
        "move the call out of the compiled function, or mark it with allow_in_graph if it is a torch operation",
    )


def _insist_on_a_receiver(ctx: Tracer, function: Any, owner: Any, cls: type) -> None:
    """Methods of a builtin container work on it alone, and those of ``dict`` know nothing of an order."""
    if not issubclass(cls, (owner, MappingProxyType)):
        ctx.stop("call", f"{name_of(function)} is called on a {cls.__qualname__}")
    if owner is dict and issubclass(cls, OrderedDict) and function.__name__ in _CHANGES_A_DICT:
        ctx.stop("call", f"{name_of(function)} is called on an OrderedDict, past its order")


_CHANGES_A_DICT = frozenset(
    {"__delitem__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update", "__ior__"}
)


def _apply(ctx: Tracer, function: Any, rule: Rule, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    try:
        return rule(ctx, *args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        # The call itself failed: the rule has no such parameters, and perhaps the function has none either.
        ctx.stop("call", f"{name_of(function)} is called in a way that capture does not know: {error}")


def _rules_of(function: Any) -> list[tuple[Kinds, Rule]]:
    try:
        return RULES.get(function, [])
    except TypeError:
        return []


def has_rule_for(ctx: Tracer, function: FunctionType, args: Sequence[Value]) -> bool:
    """Whether a Python function on these operands means what a rule says, and not what its code does."""
    return any(_fits(kinds, [realize(ctx, arg) for arg in args]) for kinds, _ in RULES.get(function, ()))


def _hashable_in(function: Any, functions: set[Any]) -> bool:
    try:
        return function in functions
    except TypeError:
        return False


def _fits(kinds: Kinds, args: Sequence[Value]) -> bool:
    if len(args) < len(kinds):
        return False
    return all(kind is None or isinstance(arg, kind) for kind, arg in zip(kinds, args, strict=False))


def fold(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """Compute now; None where an operand is not constant.  What the function raises, the user's program raises."""
    try:
        operands = [constant_of(ctx, arg) for arg in args]
        options = {name: constant_of(ctx, value) for name, value in kwargs.items()}
    except NotConstant:
        return None
    if _hashable_in(function, _COMPARE_ITEMS) and any(map(_holds_nan, operands)):
        return None  # which NaN it is decides; the rules rely on that
    if (method := asked_method(function, [*operands, *options.values()])) is not None:
        ctx.stop("special method", f"{name_of(function)} asks `{method}`, which is the program's own")
    try:
        result = function(*operands, **options)
    except Exception as error:  # noqa: BLE001 - whatever a pure function raises on these operands, it raises in eager too
        let_through(error)
        ctx.throw(type(error), *error.args)
    same = (arg for arg, operand in zip(args, operands, strict=True) if operand is result)
    return next(same, None) or ctx.literal(result)


_COMPARE_ITEMS: set[Any] = {operator.eq, operator.ne, operator.contains, operator.countOf, operator.indexOf}


def _holds_nan(operand: Any) -> bool:
    if isinstance(operand, dict):
        return any(map(_holds_nan, operand.values()))
    return isinstance(operand, (tuple, list)) and any(differs_from_itself(it) or _holds_nan(it) for it in operand)


def constant_of(ctx: Tracer, value: Value) -> Any:
    """The constant behind a value; the items of containers are looked at (and so guarded)."""
    value = realize(ctx, value)
    for part in value.parts():
        realize(ctx, part)
    return value.constant()


def name_of(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    module = module_name(function)
    return f"`{module}.{name}`" if module and module != "builtins" else f"`{name}`"


def operand_words(args: Sequence[Value]) -> str:
    if not args:
        return "nothing"
    return ", ".join(arg.describe() for arg in args[:3]) + (", ..." if len(args) > 3 else "")
