"""Jumps: on values of Python they are decided now; on a tensor's value they break the graph.

But for one kind: where one of the two ways only raises, the program goes on the other way, and the code asks after the
graph whether that was right (``Tracer.expect``).
"""

from __future__ import annotations

from capture.bytecode.flow import JUMPS, NO_FALL_THROUGH
from capture.bytecode.instructions import Instruction
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.registry import opcode
from capture.evaluator.world import World
from capture.values.base import Tracer
from capture.values.constant import ConstantValue, boolean
from capture.values.scalar import ScalarValue
from capture.values.tensor import TensorValue


@opcode("JUMP", "JUMP_NO_INTERRUPT")
def jump(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.jump(inst.arg)


@opcode("POP_JUMP_IF_TRUE")
def pop_jump_if_true(ctx: World, frame: Frame, inst: Instruction) -> None:
    if _truth(ctx, frame, inst):
        frame.jump(inst.arg)


@opcode("POP_JUMP_IF_FALSE")
def pop_jump_if_false(ctx: World, frame: Frame, inst: Instruction) -> None:
    if not _truth(ctx, frame, inst):
        frame.jump(inst.arg)


@opcode("TO_BOOL")
def to_bool(ctx: World, frame: Frame, inst: Instruction) -> None:
    # From 3.13 on the truth is asked for here and not by the jump behind it, for which it is decided.
    following = frame.instructions[frame.pc]
    decides = following.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
    frame.push(boolean(_truth(ctx, frame, following) if decides else frame.pop().truth(ctx)))


def _truth(ctx: World, frame: Frame, jump: Instruction) -> bool:
    """The truth of the top of the stack, on which the jump depends."""
    value = frame.pop()
    decided = value.decided(ctx) if isinstance(value, ScalarValue) else None
    if decided is not None:
        return decided
    if isinstance(value, (TensorValue, ScalarValue)):
        # A check: the ways are told apart by one of them doing nothing but raise.
        there = _only_raises(frame, jump.arg.index, jump)
        here = _only_raises(frame, jump.index + 1, jump)
        goes_on = here == (jump.op == "POP_JUMP_IF_TRUE")
        if there != here and ctx.expect(value, goes_on):
            return goes_on
    return value.truth(ctx)


def _only_raises(frame: Frame, start: int, jump: Instruction) -> bool:
    """True if the way from there leads out of what the jump is in, by an exception, whatever happens on it."""
    for instruction in frame.instructions[start:]:
        if instruction.op in NO_FALL_THROUGH or instruction.op in JUMPS:
            return instruction.op == "RAISE_VARARGS" and instruction.handler is jump.handler
    return False


def _top_is_none(frame: Frame) -> bool:
    value = frame.pop()
    return isinstance(value, ConstantValue) and value.value is None


@opcode("POP_JUMP_IF_NONE")
def pop_jump_if_none(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if _top_is_none(frame):
        frame.jump(inst.arg)


@opcode("POP_JUMP_IF_NOT_NONE")
def pop_jump_if_not_none(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if not _top_is_none(frame):
        frame.jump(inst.arg)
