"""Decoding and assembling again gives the same code: instructions, positions, handlers, and mostly the same bytes."""

import dis
import importlib
import sys
from itertools import pairwise
from types import CodeType

import pytest

from capture.bytecode.assembler import assemble
from capture.bytecode.instructions import Body, Instruction
from capture.bytecode.versions import split_raw

MODULES = ["argparse", "ast", "asyncio.base_events", "collections", "contextlib", "dataclasses", "enum", "inspect",
           "pickle", "tarfile", "typing", "unittest.mock"]  # fmt: skip


def codes(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from codes(const)


def module_codes(name):
    module = importlib.import_module(name)
    with open(module.__file__, encoding="utf-8") as file:
        return list(codes(compile(file.read(), module.__file__, "exec")))


def listing(code):
    """Everything a body says, without identities."""

    def arg(instruction):
        return ("->", instruction.arg.index) if isinstance(instruction.arg, Instruction) else instruction.arg

    def handler(instruction):
        it = instruction.handler
        return it and (it.target.index, it.depth, it.lasti)

    return [(i.op, arg(i), i.positions, handler(i)) for i in Body.from_code(code)]


def needed_stack(code):
    """The deepest stack, walked over the raw bytecode with the effects that CPython tells."""
    raw = {i.offset: i for i in dis.get_instructions(code)}
    offsets = sorted(raw)
    following = dict(pairwise(offsets))
    is_generator = code.co_flags & 0x2A0
    todo = [(0, 1 if is_generator and sys.version_info < (3, 12) else 0)]
    todo += [(e.target, e.depth + e.lasti + 1) for e in dis._parse_exception_table(code)]
    seen, deepest = set(), 0
    while todo:
        offset, depth = todo.pop()
        if offset in seen:
            continue
        seen.add(offset)
        i = raw[offset]
        arg = i.arg if i.opcode >= dis.HAVE_ARGUMENT and i.arg is not None else None
        on, jumped = (depth + dis.stack_effect(i.opcode, arg, jump=jump) for jump in (False, True))
        deepest = max(deepest, on, depth)
        if i.opcode in dis.hasjrel:
            todo.append((i.argval, jumped))
        if not i.opname.startswith(("RETURN_V", "RETURN_C", "RAISE", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD")):
            todo.append((following[offset], on))
    return deepest


@pytest.mark.parametrize("module", MODULES)
def test_standard_library_modules(module):
    for code in module_codes(module):
        again = assemble(Body.from_code(code), code)
        assert listing(again) == listing(code), code
        for name in ("co_consts", "co_names", "co_varnames", "co_cellvars", "co_freevars", "co_flags", "co_argcount"):
            assert getattr(again, name) == getattr(code, name)
        assert again.co_stacksize >= needed_stack(again)


@pytest.mark.parametrize("module", MODULES)
def test_raw_bytecode_is_the_same(module):
    """But for pairs of variables, which 3.13 sometimes handles one by one where both could be in one instruction."""
    for code in module_codes(module):
        again = assemble(Body.from_code(code), code)
        assert again.co_code == code.co_code or without_pairs(again) == without_pairs(code)


def without_pairs(code):
    raw = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    jumps = dis.hasjrel
    return [i.opname if i.opcode in jumps else part for i in raw for part in split_raw(i.opname, i.arg or 0)]


@pytest.mark.parametrize("module", ["argparse", "enum"])
def test_positions_are_the_same(module):
    """But for END_FOR and KW_NAMES, which the neutral form leaves out: they get those of their loop and call."""
    for code in module_codes(module):
        again = assemble(Body.from_code(code), code)
        if again.co_code == code.co_code:
            for i, before, after in zip(dis.get_instructions(code), where(code), where(again)):
                assert before == after or i.opname in ("KW_NAMES", "END_FOR", "POP_TOP", "LOAD_CONST", "PRECALL"), i


def where(code):
    positions = list(code.co_positions())
    return [positions[i.offset // 2] for i in dis.get_instructions(code)]


def test_long_jumps_and_many_names():
    lines = [f"    name{n} = {n} + name{n}" for n in range(400)]
    source = "\n".join(["def f(flag):", "  global name0", "  while flag:", *lines, "    flag -= 1", "  return name7"])
    code = next(c for c in codes(compile(source, "long", "exec")) if c.co_name == "f")
    assert assemble(Body.from_code(code), code).co_code == code.co_code


def test_a_body_can_grow_until_a_jump_needs_another_byte():
    def function(n):
        total = 0
        while n:
            total += n
            n -= 1
        return total

    body = Body.from_code(function.__code__)
    middle = next(i for i, instruction in enumerate(body) if instruction.op == "BINARY_OP")
    for count in (100, 300, 70_000):
        body.instructions[middle:middle] = [Instruction("NOP") for _ in range(count)]
        function.__code__ = assemble(body, function.__code__)
        assert function(4) == 10


def test_variables_that_are_added_move_the_cells():
    def function(a):
        return (lambda: a)()

    body = Body.from_code(function.__code__)
    start = next(i for i, instruction in enumerate(body) if instruction.op == "RESUME") + 1
    body.instructions[start:start] = [Instruction("LOAD_CONST", 5), Instruction("STORE_FAST", "fresh")]
    function.__code__ = assemble(body, function.__code__)
    assert function.__code__.co_varnames == ("a", "fresh")
    assert function(3) == 3
