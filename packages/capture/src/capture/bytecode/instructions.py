"""Code objects as lists of instructions, in a bytecode that is the same on every supported interpreter.

``Body.from_code(code)`` gives the instructions of a function with their operands resolved.  ``assembler.assemble`` goes
the other way.  What the analysis, the symbolic interpreter and the emitters see is this *neutral* form:

Operands (``Instruction.arg``)
    ====================================================  =============================================================
    LOAD_CONST                                            the constant itself
    LOAD_FAST STORE_FAST LOAD_DEREF MAKE_CELL ...         the variable's name (see *variables*)
    LOAD_GLOBAL LOAD_ATTR LOAD_METHOD STORE_NAME ...      the name, with no flag bits
    JUMP POP_JUMP_IF_* FOR_ITER SEND                      the ``Instruction`` jumped to
    COMPARE_OP                                            ``"<" "<=" "==" "!=" ">" ">="``
    BINARY_OP                                             ``"+"``, in place ``"+="``
    IS_OP, CONTAINS_OP                                    ``"is" "is not"``, ``"in" "not in"``
    CALL_INTRINSIC_1, CALL_INTRINSIC_2                    the intrinsic's name, ``"TYPEVAR"``
    UNPACK_EX                                             ``(before, after)`` the starred target
    CALL_KW                                               ``(count, names)``: see *calls*
    counts and flags (BUILD_LIST, CALL, RAISE_VARARGS)    int
    everything else                                       None
    ====================================================  =============================================================

What is gone
    CACHE, EXTENDED_ARG, PRECALL, KW_NAMES, COPY_FREE_VARS and END_FOR are put back by the assembler.  NOP stays: it
    carries a line.  What one raw opcode does in several steps is several instructions here, with equal positions:

    * 3.13's LOAD_FAST_LOAD_FAST and its kin are two instructions; a bool-converting COMPARE_OP is COMPARE_OP, TO_BOOL;
    * RETURN_CONST is LOAD_CONST, RETURN_VALUE;
    * BINARY_SLICE is BUILD_SLICE 2, BINARY_SUBSCR; STORE_SLICE is BUILD_SLICE 2, STORE_SUBSCR;
    * LOAD_GLOBAL never pushes NULL: where the raw one does there is a PUSH_NULL before it (3.11, 3.12) or after (3.13);
    * JUMP_IF_TRUE_OR_POP (3.11) is COPY 1, POP_JUMP_IF_TRUE, POP_TOP; likewise for FALSE.

Jumps
    JUMP, JUMP_NO_INTERRUPT and POP_JUMP_IF_{TRUE,FALSE,NONE,NOT_NONE} have no direction.  On 3.13 the popped value of
    POP_JUMP_IF_TRUE/FALSE and UNARY_NOT is already a bool (a TO_BOOL or comparison comes before); earlier interpreters
    test its truth there.  FOR_ITER either pushes the next item or *pops the iterator* and jumps.  SEND either pushes
    what was yielded (in place of the value sent) or jumps with the result in that place; the receiver is then still
    below it on 3.12 and 3.13, where END_SEND drops it, and gone on 3.11.

Calls
    Two slots lie below the arguments of CALL, CALL_KW and CALL_FUNCTION_EX; at most one of them is NULL.  One NULL: the
    other slot is the callable.  No NULL: the lower slot is the callable and the upper one its first argument.  A
    reader can go by this rule on every version.  A writer must put the NULL where the interpreter wants it: below the
    callable on 3.11 and 3.12, above it on 3.13 (``versions.NULL_UNDER_CALLABLE``; ``emitting.Emitter`` does it right).
    LOAD_METHOD *name* pops an object and pushes two such slots; LOAD_ATTR pushes one value.  CALL *n* and CALL_KW
    *(n, names)* take n arguments, of which the last ``len(names)`` are keywords; the names are never on the stack.
    CALL_FUNCTION_EX *flags*: flag 1 says that a mapping lies above the sequence.

    LOAD_SUPER_ATTR, LOAD_SUPER_METHOD (``super(a, b).x``) and LOAD_ZERO_SUPER_ATTR, LOAD_ZERO_SUPER_METHOD
    (``super().x``) pop super, class and self, and push one slot or two, from 3.12; 3.11 has plain calls.

Functions and formats
    MAKE_FUNCTION *flags* pops the code, then for flags 8, 4, 2, 1 in this order closure, annotations, keyword defaults,
    defaults.  FORMAT_VALUE *flags*: ``flags & 3`` converts (str 1, repr 2, ascii 3), ``flags & 4`` says that a format
    spec lies on top; 3.13 converts earlier, with CONVERT_VALUE *1, 2 or 3*, and only has flags 0 and 4.
    UNARY_POSITIVE, LIST_TO_TUPLE, ASYNC_GEN_WRAP and PREP_RERAISE_STAR are opcodes everywhere.

Variables
    Operands name variables: locals, cells and free variables share one name space, and LOAD_CLOSURE is an opcode on
    every version.  LOAD_FAST on 3.11 checks that the variable is bound; later versions load blindly where the compiler
    knows that it is, and have LOAD_FAST_CHECK for the rest.  LOAD_FAST_AND_CLEAR, LOAD_CLOSURE, MAKE_CELL and
    STORE_FAST touch the slot itself, also when the variable is a cell (an inlined comprehension saves and restores an
    outer cell so).  Where a comprehension inlined by 3.12 and 3.13 has its own ``x`` beside a free variable ``x``, the
    free one keeps the name and the other is called ``x'``.

Exceptions
    ``Instruction.handler`` is where an exception raised by this instruction goes, or None.  On entry to
    ``handler.target`` the stack is cut to ``handler.depth``; then the offset of the raising instruction
    is pushed if ``handler.lasti``, and then the exception.

This module reads code objects.  It must not know how they are written, nor what runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from types import CodeType
from typing import Any

from capture.bytecode.codetables import NO_POSITIONS, Positions, read_exception_table
from capture.bytecode.versions import (
    CACHES,
    EXTENDED_ARG,
    OPCODES,
    PY313,
    SPELLED,
    SYMBOLS,
    Operand,
    operand_of,
    split_raw,
)


@dataclass(slots=True, eq=False)
class Handler:
    """The place that an exception goes to.  Compared by identity: instructions under one handler share one object."""

    target: Instruction
    depth: int
    lasti: bool


@dataclass(slots=True, eq=False)
class Instruction:
    """One neutral instruction.  Compared by identity, since jumps refer to it; left alone once it is in a body.

    `offset` and `index` are where it was decoded from (byte offset in ``co_code``, position in ``Body.instructions``),
    and -1 for one made later.  `index` is the same each time a code object is decoded, so it can serve in cache keys.
    """

    op: str
    arg: Any = None
    positions: Positions = NO_POSITIONS
    handler: Handler | None = None
    offset: int = -1
    index: int = -1

    @property
    def line(self) -> int | None:
        return self.positions[0]

    def __repr__(self) -> str:
        arg = f"-> {self.arg.op}@{self.arg.index}" if isinstance(self.arg, Instruction) else self.arg
        return f"<{self.op}@{self.index}{'' if arg is None else f' {arg!r}'}>"


@dataclass(slots=True)
class Body:
    """The instructions of one code object, in order."""

    instructions: list[Instruction] = field(default_factory=list)

    @staticmethod
    def from_code(code: CodeType) -> Body:
        return Body(_Decoder(code).decode())

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        return "\n".join(_listing(self.instructions))


def slot_names(varnames: Sequence[str], cellvars: Sequence[str], freevars: Sequence[str]) -> list[str]:
    """The name that operands use for each variable slot: locals, then cells that are no parameters, then free ones."""
    own = [*varnames, *(name for name in cellvars if name not in varnames)]
    hidden = set(own).intersection(freevars)
    if hidden:
        own = [name + "'" if name in hidden else name for name in own]
    return own + list(freevars)


# --------------------------------------------------------------------------------------------------------------- text


def _listing(instructions: list[Instruction]) -> Iterator[str]:
    """One line for each instruction: source line where it changes, label, opcode, operand, handler.

    ``! L3 depth 1`` says that an exception goes to L3 with one value left on the stack below it.
    """
    labels = _labels(instructions)
    line: int | None = None
    for instruction in instructions:
        number = "" if instruction.line in (None, line) else str(instruction.line)
        line = instruction.line or line
        label = labels.get(instruction)
        text = f"{number:>5} {label + ':' if label else '':>5} {instruction.op:<20} {_operand(instruction, labels)}"
        if (handler := instruction.handler) is not None:
            text = f"{text:<56} ! {labels[handler.target]} depth {handler.depth}{' lasti' if handler.lasti else ''}"
        yield text.rstrip()


def _labels(instructions: list[Instruction]) -> dict[Instruction, str]:
    targets = {instruction.arg for instruction in instructions if isinstance(instruction.arg, Instruction)}
    targets |= {instruction.handler.target for instruction in instructions if instruction.handler is not None}
    ordered = [instruction for instruction in instructions if instruction in targets]
    return {instruction: f"L{number}" for number, instruction in enumerate(ordered, 1)}


def _operand(instruction: Instruction, labels: dict[Instruction, str]) -> str:
    match operand_of(instruction.op):
        case Operand.JUMP:
            return f"-> {labels[instruction.arg]}"
        case Operand.NAME | Operand.SLOT | Operand.SYMBOL:
            return str(instruction.arg)
        case _:
            return "" if instruction.arg is None else repr(instruction.arg)


# ---------------------------------------------------------------------------------------------------------- decoding


def _raw_kind(raw: str) -> tuple[str, Operand] | None:
    """The neutral opcode and operand of a raw opcode that needs no treatment, else None."""
    if raw in SPELLED or raw in SPECIAL_DECODERS:
        return None
    return raw, operand_of(raw)


class _Decoder:
    """Reads one code object."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.out: list[Instruction] = []
        self.jumps: list[Instruction] = []  # their `arg` is still a byte offset
        self.keyword_names: tuple[str, ...] | None = None  # left by KW_NAMES for the call that follows
        self.names = names = slot_names(code.co_varnames, code.co_cellvars, code.co_freevars)
        self.read: dict[Operand, Callable[[int], Any]] = {
            Operand.NONE: lambda _: None,
            Operand.COUNT: int,
            Operand.CONST: code.co_consts.__getitem__,
            Operand.NAME: code.co_names.__getitem__,
            Operand.SLOT: names.__getitem__,
            Operand.JUMP: int,
            Operand.PAIR: lambda arg: (arg & 0xFF, arg >> 8),
        }

    def decode(self) -> list[Instruction]:
        starts = self._decode_instructions()
        for jump in self.jumps:
            jump.arg = starts[jump.arg]
        if PY313:
            self._name_closure_loads()
        self._attach_handlers(starts)
        for index, instruction in enumerate(self.out):
            instruction.index = index
        return self.out

    def _decode_instructions(self) -> dict[int, Instruction]:
        """Fills `out`; returns the instruction that execution from each byte offset runs first."""
        raw, out, read, jumps = self.code.co_code, self.out, self.read, self.jumps
        # A table may end early; whatever it does not reach has no position.
        positions = list(
            islice(chain(self.code.co_positions(), repeat(NO_POSITIONS)), len(raw) // 2)
        )  # a table may end early
        firsts: list[tuple[int, int]] = []  # byte offset, index in `out` of the first instruction at or after it
        offset = start = extended = 0
        while offset < len(raw):
            opcode = raw[offset]
            arg = raw[offset + 1] | extended
            offset += 2
            if opcode == EXTENDED_ARG:
                extended = arg << 8
                continue
            extended = 0
            # The offset of the prefix, as that is where a jump to the instruction leads.
            firsts.append((start, len(out)))
            where = positions[(offset >> 1) - 1]
            offset += _TAILS[opcode]
            plain = _PLAIN[opcode]
            if plain is not None:
                op, kind = plain
                operand: Any
                if kind is Operand.SYMBOL:
                    operand = SYMBOLS[op][arg]
                elif kind is Operand.JUMP:
                    operand = offset + 2 * arg
                else:
                    operand = read[kind](arg)
                instruction = Instruction(op, operand, where, None, start)
                out.append(instruction)
                if kind is Operand.JUMP:
                    jumps.append(instruction)
            else:
                self._decode_other(opcode, arg, where, start, offset)
            start = offset
        return {start: out[index] for start, index in firsts if index < len(out)}

    def _decode_other(self, opcode: int, arg: int, where: Positions, start: int, end: int) -> None:
        """A raw opcode that is several instructions, or a part of one, or left out."""
        raw = _NAMES[opcode]
        special = SPECIAL_DECODERS.get(raw)
        if special is not None:
            special(self, arg, where, start)
            return
        # All parts have the raw opcode's offset and positions: the first is where a jump to it leads.
        for op, part_arg in split_raw(raw, arg):
            kind = operand_of(op)
            if kind is Operand.JUMP:
                operand: Any = end + (-2 * part_arg if "BACKWARD" in raw else 2 * part_arg)
            elif kind is Operand.SYMBOL:
                operand = SYMBOLS[op][part_arg]
            else:
                operand = self.read[kind](part_arg)
            instruction = self.add(op, operand, where, start)
            if kind is Operand.JUMP:
                self.jumps.append(instruction)

    def add(self, op: str, arg: object, where: Positions, start: int) -> Instruction:
        instruction = Instruction(op, arg, where, None, start)
        self.out.append(instruction)
        return instruction

    def _name_closure_loads(self) -> None:
        """3.13 spells LOAD_CLOSURE as LOAD_FAST of a slot that holds a cell."""
        code = self.code
        own = set(code.co_cellvars)
        cells = {name for i, name in enumerate(self.names) if i >= code.co_nlocals or code.co_varnames[i] in own}
        if cells:
            for instruction in self.out:
                if instruction.op == "LOAD_FAST" and instruction.arg in cells:
                    instruction.op = "LOAD_CLOSURE"

    def _attach_handlers(self, starts: dict[int, Instruction]) -> None:
        handlers: dict[tuple[int, int, bool], Handler] = {}
        entries = read_exception_table(self.code.co_exceptiontable)
        begin = end = 0  # in bytes, like offsets
        handler: Handler | None = None
        for instruction in self.out:
            # Entries and instructions are both in order of offsets, so one walk over both suffices.
            while instruction.offset >= end:
                entry = next(entries, None)
                if entry is None:
                    return
                begin, end = 2 * entry.begin, 2 * entry.end
                # Entries with one target, depth and lasti are one handler: identity is what the assembler groups by.
                key = entry[2:]
                if key not in handlers:
                    handlers[key] = Handler(starts[2 * entry.target], entry.depth, entry.lasti)
                handler = handlers[key]
            if instruction.offset >= begin:
                instruction.handler = handler


def _keyword_names(decoder: _Decoder, arg: int, _: Positions, __: int) -> None:
    decoder.keyword_names = decoder.code.co_consts[arg]


def _call(decoder: _Decoder, count: int, where: Positions, start: int) -> None:
    names, decoder.keyword_names = decoder.keyword_names, None
    if names is None:
        decoder.add("CALL", count, where, start)
    else:
        decoder.add("CALL_KW", (count, names), where, start)


def _call_kw(decoder: _Decoder, count: int, where: Positions, _: int) -> None:
    """The compiler always loads the names right before; the call takes the place of that load."""
    load = decoder.out[-1]
    load.op, load.arg, load.positions = "CALL_KW", (count, load.arg), where


def _function_attribute(decoder: _Decoder, flag: int, _: Positions, __: int) -> None:
    decoder.out[-1].arg |= flag


def _make_function(decoder: _Decoder, flags: int, where: Positions, start: int) -> None:
    decoder.add("MAKE_FUNCTION", flags, where, start)


def _left_out(_: _Decoder, __: int, ___: Positions, ____: int) -> None:
    """The assembler puts it back."""


SPECIAL_DECODERS: dict[str, Callable[[_Decoder, int, Positions, int], None]] = {
    "PRECALL": _left_out,
    "COPY_FREE_VARS": _left_out,
    "KW_NAMES": _keyword_names,
    "CALL": _call,
    "CALL_KW": _call_kw,
    "END_FOR": _left_out,
    "MAKE_FUNCTION": _make_function,
    "SET_FUNCTION_ATTRIBUTE": _function_attribute,
}
"""Raw opcodes that are merged with their neighbours, or left out."""

_NAMES = {number: name for name, number in OPCODES.items()}
# Bytes after an opcode and its argument that are no instructions: inline caches, and the POP_TOP after 3.13's END_FOR.
_TAILS = [2 * entries for entries in CACHES]
_TAILS[OPCODES.get("END_FOR", 0)] = 2 if PY313 else 0
_PLAIN = [_raw_kind(_NAMES[number]) if number in _NAMES else None for number in range(256)]
