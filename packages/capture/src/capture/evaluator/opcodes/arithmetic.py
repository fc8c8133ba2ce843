"""Operators, comparisons and formatting: each is a call of the builtin that means the same."""

from __future__ import annotations

import operator

from capture.bytecode.instructions import Instruction
from capture.evaluator.builtin_rules.operators import BINARY, COMPARE
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.registry import opcode
from capture.values.base import Tracer, realize
from capture.values.constant import NONE, ConstantValue, boolean
from capture.values.function import BuiltinValue
from capture.values.sequence import SliceValue


@opcode("BINARY_OP")
def binary_op(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ctx.call_builtin(BINARY[inst.arg], [left, right], {}))


@opcode("COMPARE_OP")
def compare_op(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ctx.call_builtin(COMPARE[inst.arg], [left, right], {}))


@opcode("IS_OP")
def is_op(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(boolean(ctx.is_one_object(left, right) == (inst.arg == "is")))


@opcode("CONTAINS_OP")
def contains_op(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    answer = ctx.call_builtin(operator.contains, [container, item], {}).truth(ctx)
    frame.push(boolean(answer == (inst.arg == "in")))


@opcode("UNARY_NEGATIVE")
def negative(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.call_builtin(operator.neg, [frame.pop()], {}))


@opcode("UNARY_POSITIVE")
def positive(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.call_builtin(operator.pos, [frame.pop()], {}))


@opcode("UNARY_INVERT")
def invert(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.call_builtin(operator.invert, [frame.pop()], {}))


@opcode("UNARY_NOT")
def negate(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(boolean(not frame.pop().truth(ctx)))


@opcode("BINARY_SUBSCR")
def binary_subscr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    frame.push(ctx.call_builtin(operator.getitem, [container, key], {}))


@opcode("STORE_SUBSCR")
def store_subscr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    key, container, value = frame.pop(), frame.pop(), frame.pop()
    ctx.call_builtin(operator.setitem, [container, key, value], {})


@opcode("DELETE_SUBSCR")
def delete_subscr(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    key, container = frame.pop(), frame.pop()
    ctx.call_builtin(operator.delitem, [container, key], {})


@opcode("BUILD_SLICE")
def build_slice(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    parts = [realize(ctx, part) for part in frame.popn(inst.arg)]
    frame.push(SliceValue(parts[0], parts[1], parts[2] if len(parts) == 3 else NONE))


_CONVERSIONS = {1: str, 2: repr, 3: ascii}


@opcode("CONVERT_VALUE")
def convert_value(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.call(BuiltinValue(_CONVERSIONS[inst.arg]), [frame.pop()]))


@opcode("FORMAT_VALUE")
def format_value(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    spec = frame.pop() if inst.arg & 4 else ConstantValue("")
    value = frame.pop()
    if inst.arg & 3:
        value = ctx.call_builtin(_CONVERSIONS[inst.arg & 3], [value], {})
    frame.push(ctx.call_builtin(format, [value, spec], {}))


@opcode("BUILD_STRING")
def build_string(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    parts = frame.popn(inst.arg)
    frame.push(ConstantValue("".join(realize(ctx, part).constant() for part in parts)))
