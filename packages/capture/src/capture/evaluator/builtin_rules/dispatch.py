"""Calling a function without Python code of its own: the rule for it, its value now, or the family that it is of.

The rules of a function are walked in the order in which they were written; the first whose kinds match is taken.
Where none fits, a pure function of constants is computed, and the families are asked in their order.  What nobody
knows is left to CPython.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

from capture.evaluator.builtin_rules.accepted import is_accepted
from capture.evaluator.builtin_rules.families import FAMILIES
from capture.evaluator.builtin_rules.operators import by_own_methods
from capture.evaluator.builtin_rules.registry import PURE, RULES, Kinds, Rule, fold, hashable_in, name_of
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Value, realize
from capture.values.container_object import STORAGE, contents_of


def call_builtin(ctx: World, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """The result of a call, by the rule, the value or the family that answers for it."""
    args = [realize(ctx, arg) for arg in args]
    kwargs = {name: realize(ctx, value) for name, value in kwargs.items()}
    # Methods of the builtin containers work on contents: an object of a subclass is more than those.
    owner = None if not args or isinstance(function, type) else getattr(function, "__objclass__", None)
    if owner not in STORAGE:
        return _call(ctx, function, args, kwargs)
    _insist_on_a_receiver(ctx, function, owner, args[0].python_type())
    receiver, args[0] = args[0], contents_of(args[0])
    answer = _call(ctx, function, args, kwargs)
    return receiver if answer is args[0] else answer  # what gives itself gives the whole object


def _call(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """Asks the rules of the function, then its value, then the families."""
    if (own := by_own_methods(ctx, function, args)) is not None:
        return own
    # Rules before constants: the answer for some constants hangs on more than their values.
    for kinds, handler in _rules_of(function):
        if _fits(kinds, args):
            return _apply(ctx, function, handler, args, kwargs)
    if hashable_in(function, PURE):
        folded = fold(ctx, function, args, kwargs)
        if folded is not None:
            return folded
    for family in FAMILIES:
        answer = family(ctx, function, args, kwargs)
        if answer is not None:
            return answer
    return ctx.stop(
        Kind.BUILTIN,
        f"{name_of(function)} is called on {operand_words(args)}, which capture cannot evaluate",
        "move the call out of the compiled function, or mark it with allow_in_graph if it is a torch operation",
    )


def _insist_on_a_receiver(ctx: World, function: Any, owner: Any, cls: type) -> None:
    """Methods of a builtin container work on it alone, and those of ``dict`` know nothing of an order."""
    if not issubclass(cls, (owner, MappingProxyType)):
        ctx.stop(Kind.CALL, f"{name_of(function)} is called on a {cls.__qualname__}")
    if owner is dict and issubclass(cls, OrderedDict) and function.__name__ in _CHANGES_A_DICT:
        ctx.stop(Kind.CALL, f"{name_of(function)} is called on an OrderedDict, past its order")


_CHANGES_A_DICT = frozenset(
    {"__delitem__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update", "__ior__"}
)


def _apply(ctx: World, function: object, rule: Rule, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """Runs a rule; a call that its parameters do not fit is left to CPython, whose error is right."""
    if kwargs and not is_accepted(function, len(args), kwargs):
        ctx.stop(Kind.CALL, f"{name_of(function)} is called with keywords that it does not take")
    try:
        return rule(ctx, *args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        # The call itself failed: the rule has no such parameters, and perhaps the function has none either.
        ctx.stop(Kind.CALL, f"{name_of(function)} is called in a way that capture does not know: {error}")


def _rules_of(function: object) -> list[tuple[Kinds, Rule]]:
    try:
        return RULES.get(function, [])
    except TypeError:
        return []


def has_rule_for(ctx: World, function: FunctionType, args: Sequence[Value]) -> bool:
    """True if a Python function on these operands means what a rule says, and not what its code does."""
    return any(_fits(kinds, [realize(ctx, arg) for arg in args]) for kinds, _ in RULES.get(function, ()))


def _fits(kinds: Kinds, args: Sequence[Value]) -> bool:
    """True if the first operands are of the kinds that a rule is for."""
    if len(args) < len(kinds):
        return False
    return all(kind is None or isinstance(arg, kind) for kind, arg in zip(kinds, args, strict=False))


def operand_words(args: Sequence[Value]) -> str:
    if not args:
        return "nothing"
    return ", ".join(arg.describe() for arg in args[:3]) + (", ..." if len(args) > 3 else "")
