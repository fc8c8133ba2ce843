"""Calls, functions made by the code, returns, and steps of iterators."""

from __future__ import annotations

from types import CodeType
from typing import Any

from capture.bytecode.instructions import Instruction
from capture.evaluator.builtin_rules.containers import pairs_of
from capture.evaluator.frame import NULL, Frame
from capture.evaluator.opcodes.registry import opcode
from capture.reasons import Kind
from capture.values.base import Tracer, Value, is_iterable, realize
from capture.values.classes import ClassValue, SuperValue
from capture.values.constant import UNBOUND, plain_text
from capture.values.function import BoundMethod, CellValue, FunctionValue
from capture.values.iterating import iterate
from capture.values.iterator import IteratorValue
from capture.values.mapping import DictValue


def _callee(ctx: Tracer, frame: Frame) -> tuple[Value, list[Value]]:
    """The function and, for a method, its first argument, from the two slots below the arguments.

    One of them is NULL, or the upper one is the first argument.
    """
    upper, lower = frame.pop_unseen(), frame.pop_unseen()
    if upper is NULL:
        return realize(ctx, lower), []
    if lower is NULL:
        return realize(ctx, upper), []
    return realize(ctx, lower), [upper]


@opcode("CALL")
def call(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    args = frame.popn(inst.arg)
    function, first = _callee(ctx, frame)
    frame.push(_call(ctx, frame, function, first + args, {}))


@opcode("CALL_KW")
def call_kw(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    count, names = inst.arg
    args = frame.popn(count)
    function, first = _callee(ctx, frame)
    split = len(args) - len(names)
    frame.push(_call(ctx, frame, function, first + args[:split], dict(zip(names, args[split:], strict=True))))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    named = _keywords(ctx, frame.pop()) if inst.arg & 1 else []
    given = frame.pop()
    if not is_iterable(given):
        ctx.stop(Kind.CALL, f"{given.describe()} is to be the arguments of a call")
    # Read to the end before the callee is looked at, as in CPython: what is iterated may be code of the program.
    args = iterate(ctx, given).rest(ctx)
    function, first = _callee(ctx, frame)
    kwargs = {_keyword(ctx, function, key): value for key, value in named}
    frame.push(_call(ctx, frame, function, first + args, kwargs))


def _keywords(ctx: Tracer, mapping: Value) -> list[tuple[Any, Value]]:
    """The keyword arguments in a mapping, with their keys as they are: no texts yet."""
    if isinstance(mapping, DictValue):
        return [(key, value) for key, (_, value) in mapping.entries.items()]
    return [(key.constant(), value) for key, value in pairs_of(ctx, mapping)]


def _keyword(ctx: Tracer, function: Value, key: object) -> str:
    """The name of a keyword argument; a member of a text enum will do where the callee has a parameter of that name.

    ``**kwargs`` would keep the member itself.
    """
    if type(key) is str:
        return key
    called = function.function if isinstance(function, BoundMethod) else function
    if isinstance(key, str) and isinstance(called, FunctionValue):
        text, code = plain_text(ctx, key), called.code
        if text in code.co_varnames[code.co_posonlyargcount : code.co_argcount + code.co_kwonlyargcount]:
            return text
    return ctx.stop(Kind.CALL, f"a keyword is a `{type(key).__name__}`", "use a `str`")


def _call(ctx: Tracer, frame: Frame, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The result of a call.

    Notes the function whose code the instruction calls by itself: other calls of it have somebody who refers to the
    arguments as well (``evaluator/forgotten``).
    """
    if isinstance(function, ClassValue) and function.cls is super and not args:
        return _super_here(ctx, frame)
    called = function.function if isinstance(function, BoundMethod) else function
    frame.calling = (
        called.code if isinstance(called, FunctionValue) and frame.current.op != "CALL_FUNCTION_EX" else None
    )
    return ctx.call(function, args, kwargs)


def _super_here(ctx: Tracer, frame: Frame) -> Value:
    """``super()``: the class is in the frame's closure, the receiver is its first variable."""
    cell, names = frame.slots.get("__class__"), frame.code.co_varnames
    cls = realize(ctx, frame.cell("__class__").content) if cell is not None else None
    # Looked into only now: a continuation is given the cell itself, which nothing has read yet.
    first = realize(ctx, frame.slots.get(names[0], UNBOUND)) if names else UNBOUND
    receiver = realize(ctx, first.content) if isinstance(first, CellValue) else first
    if not isinstance(cls, ClassValue) or receiver is UNBOUND:
        ctx.stop(Kind.SUPER, "`super()` is called where it does not work")
    return SuperValue(cls.cls, receiver)


def _cell(ctx: Tracer, value: Value) -> CellValue:
    cell = realize(ctx, value)
    assert isinstance(cell, CellValue)
    return cell


@opcode("MAKE_FUNCTION")
def make_function(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    code = frame.pop().constant()
    assert isinstance(code, CodeType)
    # From the top down, in the order of the flags 8, 4, 2, 1.
    closure = frame.pop().elements(ctx) if inst.arg & 8 else []
    annotations = frame.pop().elements(ctx) if inst.arg & 4 else []
    keyword_defaults = frame.pop() if inst.arg & 2 else None
    defaults = frame.pop().elements(ctx) if inst.arg & 1 else []
    made = FunctionValue(
        code,
        frame.function.namespace,
        defaults=defaults,
        keyword_defaults=dict(_keywords(ctx, keyword_defaults)) if keyword_defaults else {},
        closure=[_cell(ctx, cell) for cell in closure],
    )
    made.annotations = annotations
    frame.push(made)


@opcode("RETURN_VALUE")
def return_value(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    # Unseen: nothing is relied on of a result that is only passed on.
    frame.returned = frame.pop_unseen()


@opcode("GET_ITER")
def get_iter(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(iterate(ctx, frame.pop()))


@opcode("FOR_ITER")
def for_iter(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    iterator = realize(ctx, frame.stack[-1])
    if not isinstance(iterator, IteratorValue):
        ctx.stop(Kind.ITERATION, f"{iterator.describe()} is iterated")
    value = iterator.step(ctx)
    # The neutral FOR_ITER takes the iterator off the stack where the loop ends, whatever the release does.
    if value is None:
        frame.pop_unseen()
        frame.jump(inst.arg)
    else:
        frame.push(value)
