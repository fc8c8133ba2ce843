"""Opcodes of class bodies, whose variables are entries of a namespace."""

from __future__ import annotations

import builtins

from capture.bytecode.instructions import Instruction
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.names import bound_cell, read_global
from capture.evaluator.opcodes.registry import opcode
from capture.values.base import Tracer, Value, realize
from capture.values.constant import ConstantValue
from capture.values.mapping import DictValue


@opcode("LOAD_BUILD_CLASS")
def load_build_class(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(ctx.literal(builtins.__build_class__))


def _names(frame: Frame) -> DictValue:
    """The namespace of the class body that the frame runs."""
    assert frame.names is not None
    return frame.names


def _entry(names: Value, name: str) -> Value | None:
    assert isinstance(names, DictValue)
    found = names.entries.get(name)
    return None if found is None else found[1]


@opcode("LOAD_NAME")
def load_name(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    """A name in a class body: the namespace first, then globals and builtins."""
    found = _entry(_names(frame), inst.arg)
    frame.push(read_global(ctx, frame.function.namespace, inst.arg) if found is None else found)


@opcode("STORE_NAME")
def store_name(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    _names(frame).entries[inst.arg] = (ConstantValue(inst.arg), frame.pop_unseen())


@opcode("DELETE_NAME")
def delete_name(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if _names(frame).entries.pop(inst.arg, None) is None:
        ctx.throw(NameError, f"name '{inst.arg}' is not defined")


@opcode("LOAD_LOCALS")
def load_locals(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    frame.push(_names(frame))


@opcode("LOAD_CLASSDEREF")
def load_classderef(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    """A free variable in a class body, which the namespace may hide."""
    found = _entry(_names(frame), inst.arg)
    frame.push(bound_cell(ctx, frame, inst.arg).content if found is None else found)


@opcode("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    found = _entry(realize(ctx, frame.pop()), inst.arg)
    frame.push(bound_cell(ctx, frame, inst.arg).content if found is None else found)


@opcode("LOAD_FROM_DICT_OR_GLOBALS")
def load_from_dict_or_globals(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    found = _entry(realize(ctx, frame.pop()), inst.arg)
    frame.push(read_global(ctx, frame.function.namespace, inst.arg) if found is None else found)


@opcode("SETUP_ANNOTATIONS")
def setup_annotations(ctx: Tracer, frame: Frame, inst: Instruction) -> None:
    if frame.names is not None:
        frame.names.entries.setdefault("__annotations__", (ConstantValue("__annotations__"), DictValue()))
