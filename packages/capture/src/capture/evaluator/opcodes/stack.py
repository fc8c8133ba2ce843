"""Opcodes that only move values about on the stack."""

from __future__ import annotations

from capture.bytecode.instructions import Instruction
from capture.evaluator.frame import NULL, Frame
from capture.evaluator.opcodes.registry import opcode
from capture.values.base import Tracer
from capture.values.finalizers import require_quiet_pop


@opcode("NOP", "RESUME")
def do_nothing(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    pass


@opcode("POP_TOP")
def pop_top(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    require_quiet_pop(ctx, frame.pop_unseen())


@opcode("PUSH_NULL")
def push_null(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(NULL)


@opcode("COPY")
def copy(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(frame.stack[-inst.arg])


@opcode("SWAP")
def swap(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    stack = frame.stack
    stack[-1], stack[-inst.arg] = stack[-inst.arg], stack[-1]
