"""Jumps: on values of Python they are decided now; on a tensor's value they break the graph."""

from __future__ import annotations

from capture.frame import Frame
from capture.instructions import Instruction
from capture.opcodes.registry import opcode
from capture.values.base import Tracer
from capture.values.constant import ConstantValue


@opcode("JUMP", "JUMP_NO_INTERRUPT")
def jump(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.jump(inst.arg)


@opcode("POP_JUMP_IF_TRUE")
def pop_jump_if_true(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if frame.pop().truth(ctx):
        frame.jump(inst.arg)


@opcode("POP_JUMP_IF_FALSE")
def pop_jump_if_false(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if not frame.pop().truth(ctx):
        frame.jump(inst.arg)


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
