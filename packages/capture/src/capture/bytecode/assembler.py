"""Bodies back to code objects.

``assemble(body, template)`` is the inverse of ``Body.from_code(template)``: a body that was not touched gives the same
bytes.  The steps, in order: neutral instructions become raw ones (`_Lowering`) with operands that are indices into
constants, names and variables (`Pools`); jumps are given lengths until nothing grows (`_lay_out`); bytes and tables are
written.

This module knows how code objects are made.  It must not know why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from types import CodeType
from typing import Any

from capture.bytecode.codetables import ExceptionEntry, Positions, write_exception_table, write_line_table
from capture.bytecode.flow import JUMPS, NO_FALL_THROUGH, Flow, MalformedBody
from capture.bytecode.instructions import Body, Handler, Instruction, slot_names
from capture.bytecode.versions import (
    CACHES,
    EXTENDED_ARG,
    OPCODES,
    PY312,
    PY313,
    SPELLINGS,
    SYMBOLS,
    Operand,
    Spelling,
    operand_of,
)


def assemble(body: Body, template: CodeType, **overrides: object) -> CodeType:
    """A code object with the instructions of `body` and everything else as in `template`.

    `overrides` are as for ``CodeType.replace``.  Constants, names, locals and cells that the template lacks are added
    after those it has.
    """
    template = template.replace(**_with_counts(overrides)) if overrides else template
    pools = Pools(template, body)
    lowering = _Lowering(body, pools)
    lowering.lower()
    units = lowering.out
    _lay_out(units)
    # Behind the layout: only now offsets are numbers.
    pools.settle(lambda instruction: lowering.starts[instruction].start)
    return template.replace(
        co_code=_code_bytes(units),
        co_linetable=write_line_table(_position_runs(units), template.co_firstlineno),
        co_exceptiontable=write_exception_table(_exception_entries(units, lowering.starts)),
        co_stacksize=max(Flow(body).stack_size(), 1),
        **pools.fields(),
    )


def _with_counts(overrides: dict[str, Any]) -> dict[str, Any]:
    """The overrides, with ``co_nlocals`` brought in line with another tuple of local variables."""
    if "co_varnames" in overrides:
        return {"co_nlocals": len(overrides["co_varnames"]), **overrides}
    return overrides


@dataclass(frozen=True, slots=True, eq=False)
class OffsetOf:
    """A constant that becomes an instruction's offset, in the form in which a handler with `lasti` finds it."""

    instruction: Instruction


# --------------------------------------------------------------------------------------------------------------- pools


class Pools:
    """The constants, names and variables of a code object.  Asking for the index of a missing one adds it."""

    def __init__(self, template: CodeType, body: Body) -> None:
        self.template = template
        self.consts = list(template.co_consts)
        self.names = list(template.co_names)
        self.varnames = list(template.co_varnames)
        self.cellvars = list(template.co_cellvars)
        # By identity: 1, True and 1.0 are equal.  The list keeps the objects alive and so the ids valid.
        self._const_index = {id(const): i for i, const in reversed([*enumerate(self.consts)])}
        self._name_index = {name: i for i, name in enumerate(self.names)}
        self._slot_index = self._number_slots(body)

    def const(self, value: object) -> int:
        index = self._const_index.setdefault(id(value), len(self.consts))
        if index == len(self.consts):
            self.consts.append(value)
        return index

    def name(self, name: str) -> int:
        index = self._name_index.setdefault(name, len(self.names))
        if index == len(self.names):
            self.names.append(name)
        return index

    def slot(self, name: str) -> int:
        return self._slot_index[name]

    def _number_slots(self, body: Body) -> dict[str, int]:
        """All variables must be known before the first is numbered: a new local moves every cell."""
        free = self.template.co_freevars
        # A quote marks a variable of the function's own that has the name of a free one (``slot_names``).
        known = set(slot_names(self.varnames, self.cellvars, free))
        for instruction in body:
            if operand_of(instruction.op) is Operand.SLOT and instruction.arg not in known:
                known.add(instruction.arg)
                added = self.varnames if instruction.op in _LOCAL_OPCODES else self.cellvars
                added.append(instruction.arg.removesuffix("'"))
        return {name: i for i, name in enumerate(slot_names(self.varnames, self.cellvars, free))}

    def settle(self, place: Callable[[Instruction], int]) -> None:
        """Puts numbers in the place of offsets, once the layout is known."""
        for i, const in enumerate(self.consts):
            if isinstance(const, OffsetOf):
                self.consts[i] = place(const.instruction)

    def fields(self) -> dict[str, Any]:
        return {
            "co_consts": tuple(self.consts),
            "co_names": tuple(self.names),
            "co_varnames": tuple(self.varnames),
            "co_nlocals": len(self.varnames),
            "co_cellvars": tuple(self.cellvars),
        }


_LOCAL_OPCODES = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "STORE_FAST", "DELETE_FAST"})


# ------------------------------------------------------------------------------------------------------------ lowering


@dataclass(slots=True, eq=False)
class _Raw:
    """One raw instruction on its way to bytes.  `start` and `size` are in code units."""

    opcode: int
    arg: int
    positions: Positions
    handler: Handler | None
    backward: bool = False
    target: _Raw | None = None
    start: int = 0
    size: int = 0

    @property
    def end(self) -> int:
        return self.start + self.size


class _Lowering:
    """Neutral instructions to raw ones."""

    def __init__(self, body: Body, pools: Pools) -> None:
        self.instructions = body.instructions
        self.pools = pools
        self.order = {instruction: i for i, instruction in enumerate(body.instructions)}
        self.out: list[_Raw] = []
        self.starts: dict[Instruction, _Raw] = {}  # the first raw instruction of each that control can enter at
        self.pads: dict[Instruction, _Raw] = {}  # the END_FOR before the target of a FOR_ITER
        self.jumps: list[tuple[_Raw, Instruction]] = []
        self.targets: set[Instruction] = set()
        self.exhausted: dict[Instruction, Instruction] = {}  # the target of a FOR_ITER -> that FOR_ITER
        self._find_targets()

    def _find_targets(self) -> None:
        for instruction in self.instructions:
            if instruction.op in JUMPS:
                self.targets.add(instruction.arg)
            if instruction.op == "FOR_ITER":
                self.exhausted[instruction.arg] = instruction
            if instruction.handler is not None:
                self.targets.add(instruction.handler.target)
        for target in self.targets:
            if target not in self.order:
                raise MalformedBody(f"{target!r} is a target but not in the body")

    def lower(self) -> None:
        if free := self.pools.template.co_freevars:
            self.emit("COPY_FREE_VARS", len(free), Instruction("COPY_FREE_VARS"))
        i = 0
        while i < len(self.instructions):
            instruction = self.instructions[i]
            # The pad has to come right before the target, wherever the jumps to it are.
            if PY312 and instruction in self.exhausted:
                self._end_loop(instruction, self.instructions[i - 1])
            first = len(self.out)
            i += self._lower_at(i)
            # Where a jump to the instruction leads: to the first raw one that it became.
            self.starts[instruction] = self.out[first]
        for unit, target in self.jumps:
            # A FOR_ITER leads to the END_FOR before its target, which the interpreter skips; every other jump goes to
            # the target.
            pads = self.pads if unit.opcode == _FOR_ITER else {}
            unit.target = pads.get(target) or self.starts[target]

    def emit(self, raw: str, arg: int, like: Instruction) -> _Raw:
        unit = _Raw(OPCODES[raw], arg, like.positions, like.handler)
        self.out.append(unit)
        return unit

    def emit_jump(self, raw: str, like: Instruction, target: Instruction, *, backward: bool = False) -> None:
        unit = self.emit(raw, 0, like)
        unit.backward = backward
        self.jumps.append((unit, target))

    def _end_loop(self, target: Instruction, previous: Instruction) -> None:
        """Puts an END_FOR before the target of a FOR_ITER, which skips over it there from 3.12 on."""
        # Whoever falls into the target from above must not run the END_FOR.
        if previous.op not in NO_FALL_THROUGH:
            self.emit_jump("JUMP_FORWARD", previous, target)
        loop = self.exhausted[target]
        self.pads[target] = self.emit("END_FOR", 0, loop)
        if PY313:
            self.emit("POP_TOP", 0, loop)

    def _lower_at(self, i: int) -> int:
        """Emits instruction `i`, alone or together with its followers; returns how many were taken."""
        instruction = self.instructions[i]
        # Some raw instructions stand for two or more neutral ones (3.13: LOAD_FAST_LOAD_FAST); the longest that fits is
        # taken.
        for spelling in _SPELLINGS_BY_FIRST[_raw_name(instruction)]:
            group = self.instructions[i : i + len(spelling.parts)]
            if self._may_join(spelling, group) and self._emit_joined(spelling, group):
                return len(group)
        special = _SPECIAL.get(instruction.op)
        if special is not None:
            special(self, instruction)
        elif instruction.op in JUMPS:
            _lower_jump(self, instruction)
        elif (raw := _raw_name(instruction)) in OPCODES:
            self.emit(raw, self.integer(instruction), instruction)
        else:
            raise MalformedBody(f"{instruction!r} is no opcode of this interpreter")
        return 1

    def _may_join(self, spelling: Spelling, group: list[Instruction]) -> bool:
        """True if control cannot enter in between, and no position or handler would be lost."""
        first, *others = group
        return tuple(map(_raw_name, group)) == spelling.parts and all(
            other.positions == first.positions and other.handler is first.handler and other not in self.targets
            for other in others
        )

    def _emit_joined(self, spelling: Spelling, group: list[Instruction]) -> bool:
        target = next((part.arg for part in group if part.op in JUMPS), None)
        if target is not None and self.order[target] <= self.order[group[-1]]:
            return False  # the joined jumps only go forward
        arg = spelling.join(*map(self.integer, group))
        if arg is None:
            return False
        if target is None:
            self.emit(spelling.raw, arg, group[0])
        else:
            self.emit_jump(spelling.raw, group[0], target)
        return True

    def integer(self, instruction: Instruction) -> int:
        """The operand as the number that the interpreter wants."""
        arg = instruction.arg
        match operand_of(instruction.op):
            case Operand.CONST:
                return self.pools.const(arg)
            case Operand.NAME:
                return self.pools.name(arg)
            case Operand.SLOT:
                return self.pools.slot(arg)
            case Operand.SYMBOL:
                return SYMBOLS[instruction.op].index(arg)
            # Two numbers in one operand, of eight bits each: UNPACK_EX.
            case Operand.PAIR:
                return int(arg[0] | arg[1] << 8)
            case Operand.COUNT:
                return int(arg or 0)
            case _:
                return 0


_FOR_ITER = OPCODES["FOR_ITER"]


def _raw_name(instruction: Instruction) -> str:
    return "LOAD_FAST" if PY313 and instruction.op == "LOAD_CLOSURE" else instruction.op


def _spellings_by_first() -> defaultdict[str, list[Spelling]]:
    """The spellings that start with a neutral opcode, the longest first; jumps are spelled by `_lower_jump`."""
    table: defaultdict[str, list[Spelling]] = defaultdict(list)
    for spelling in sorted(SPELLINGS, key=lambda row: -len(row.parts)):
        if spelling.parts[0] not in JUMPS:
            table[spelling.parts[0]].append(spelling)
    return table


_SPELLINGS_BY_FIRST = _spellings_by_first()


def _lower_jump(lowering: _Lowering, jump: Instruction) -> None:
    backward = lowering.order[jump.arg] <= lowering.order[jump]
    raw = jump.op
    if raw == "JUMP":
        raw = "JUMP_BACKWARD" if backward else "JUMP_FORWARD"
    elif raw == "JUMP_NO_INTERRUPT":
        raw = "JUMP_BACKWARD_NO_INTERRUPT" if backward else "JUMP_FORWARD"
    elif raw.startswith("POP_JUMP"):
        # 3.11 has a raw opcode for each direction, later ones only jump forward on a condition.
        if not PY312:
            raw = raw.replace("JUMP", "JUMP_BACKWARD" if backward else "JUMP_FORWARD")
        elif backward:
            _lower_backward_condition(lowering, jump)
            return
    elif backward:
        raise MalformedBody(f"{jump!r} can only jump forward")
    lowering.emit_jump(raw, jump, jump.arg, backward=backward)


def _lower_backward_condition(lowering: _Lowering, jump: Instruction) -> None:
    """Emits the opposite condition, which skips a plain jump back: from 3.12 conditional jumps go forward only."""
    #    3.12:   POP_JUMP_IF_TRUE back   ->   POP_JUMP_IF_FALSE next;  JUMP_BACKWARD back;  next: ...
    following = lowering.instructions[lowering.order[jump] + 1]
    lowering.emit_jump(_OPPOSITE[jump.op], jump, following)
    lowering.emit_jump("JUMP_BACKWARD", jump, jump.arg, backward=True)


_OPPOSITE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE",
    "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}


def _lower_call(lowering: _Lowering, call: Instruction) -> None:
    # 3.11 splits a call in two: PRECALL has the cache of the callable's kind.
    if not PY312:
        lowering.emit("PRECALL", call.arg, call)
    lowering.emit("CALL", call.arg, call)


def _lower_call_kw(lowering: _Lowering, call: Instruction) -> None:
    count, names = call.arg
    index = lowering.pools.const(names)
    # 3.13 takes the names off the stack; before, KW_NAMES leaves them for the CALL that follows.
    if PY313:
        lowering.emit("LOAD_CONST", index, call)
        lowering.emit("CALL_KW", count, call)
        return
    lowering.emit("KW_NAMES", index, call)
    if not PY312:
        lowering.emit("PRECALL", count, call)
    lowering.emit("CALL", count, call)


def _lower_make_function(lowering: _Lowering, make: Instruction) -> None:
    if not PY313:
        lowering.emit("MAKE_FUNCTION", make.arg, make)
        return
    lowering.emit("MAKE_FUNCTION", 0, make)
    # In 3.13 each attribute is put on by an instruction of its own, from the top of the stack down.
    for flag in (8, 4, 2, 1):
        if make.arg & flag:
            lowering.emit("SET_FUNCTION_ATTRIBUTE", flag, make)


_SPECIAL: dict[str, Callable[[_Lowering, Instruction], None]] = {
    "CALL": _lower_call,
    "CALL_KW": _lower_call_kw,
    "MAKE_FUNCTION": _lower_make_function,
}


# -------------------------------------------------------------------------------------------------------------- layout


def _lay_out(units: list[_Raw]) -> None:
    """Gives every unit its place.  A longer jump may push others apart, so until nothing grows."""
    for unit in units:
        unit.size = _size(unit)
    # Sizes only grow, so that this ends: a jump over 255 units needs a prefix, which may push another jump over the
    # limit.
    growing = True
    while growing:
        growing = False
        start = 0
        for unit in units:
            unit.start = start
            start += unit.size
        for unit in units:
            if unit.target is not None:
                unit.arg = unit.end - unit.target.start if unit.backward else unit.target.start - unit.end
                if (size := _size(unit)) > unit.size:
                    unit.size = size
                    growing = True


def _size(unit: _Raw) -> int:
    # One EXTENDED_ARG for every eight bits beyond the first.
    prefixes = max(0, (unit.arg.bit_length() - 1) // 8)
    return prefixes + 1 + CACHES[unit.opcode]


def _code_bytes(units: list[_Raw]) -> bytes:
    out = bytearray()
    for unit in units:
        caches = CACHES[unit.opcode]
        # A jump that once needed more prefixes than it does now keeps them: empty ones are harmless.
        for shift in range(8 * (unit.size - caches - 1), 0, -8):
            out += bytes((EXTENDED_ARG, unit.arg >> shift & 0xFF))
        out += bytes((unit.opcode, unit.arg & 0xFF)) + bytes(2 * caches)
    return bytes(out)


def _position_runs(units: list[_Raw]) -> Iterator[tuple[Positions, int]]:
    """Source positions with the number of code units that share them."""
    for positions, group in groupby(units, key=attrgetter("positions")):
        yield positions, sum(unit.size for unit in group)


def _exception_entries(units: list[_Raw], starts: dict[Instruction, _Raw]) -> Iterator[ExceptionEntry]:
    for handler, group in groupby(units, key=attrgetter("handler")):
        if handler is not None:
            # Neighbours under one handler are one entry of the table.
            covered = list(group)
            target = starts[handler.target].start
            yield ExceptionEntry(covered[0].start, covered[-1].end, target, handler.depth, handler.lasti)
