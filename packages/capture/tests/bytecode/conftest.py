"""Stops a running function at any instruction and shows what its frame holds: the other half of a continuation."""

import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

if find_spec("torch") is None:
    # These modules need no torch, the package as a whole does: make it an empty one.
    sys.modules["capture"] = ModuleType("capture")
    sys.modules["capture"].__path__ = [str(Path(__file__).parents[2] / "src" / "capture")]

from capture.bytecode.assembler import assemble
from capture.bytecode.emitter import Emitter
from capture.bytecode.flow import JUMPS, NO_FALL_THROUGH, Flow, stack_effect
from capture.bytecode.instructions import Body
from capture.bytecode.resume import Continuations, Point, Slot
from capture.bytecode.versions import NULL_UNDER_CALLABLE

PAIR = [Slot.NULL, Slot.VALUE] if NULL_UNDER_CALLABLE else [Slot.VALUE, Slot.NULL]


@dataclass(frozen=True)
class Saved:
    """On the stack: a variable that an inlined comprehension uses meanwhile.  It may have been unbound, or a cell."""

    was_cell: bool


PUSH_NOTHING = ("STORE", "DELETE", "POP", "LIST_APPEND", "LIST_EXTEND", "SET_", "DICT_", "MAP_ADD", "RETURN", "R")


def cells_after(instruction, stack, cells):
    """The cell variables that have their cell after an instruction, from those before."""
    match instruction.op:
        case "MAKE_CELL":
            return cells | {instruction.arg}
        case "STORE_FAST" if isinstance(stack[-1], Saved) and stack[-1].was_cell:
            return cells | {instruction.arg}
        case "STORE_FAST" | "LOAD_FAST_AND_CLEAR":
            return cells - {instruction.arg}
    return cells


def stack_after(instruction, stack, cells, jump):
    """The kinds of the stack's slots after an instruction, from those before."""
    op, effect = instruction.op, stack_effect(instruction, jump=jump)
    match op:
        case "PUSH_NULL":
            return [*stack, Slot.NULL]
        case "LOAD_FAST_AND_CLEAR" if not instruction.arg.startswith("."):
            return [*stack, Saved(instruction.arg in cells)]
        case "LOAD_METHOD" | "LOAD_SUPER_METHOD" | "LOAD_ZERO_SUPER_METHOD":
            return stack[: len(stack) + effect - 2] + PAIR
        case "SWAP":
            stack = list(stack)
            stack[-1], stack[-instruction.arg] = stack[-instruction.arg], stack[-1]
            return stack
        case "COPY":
            kind = stack[-instruction.arg]
            return [*stack, Slot.VALUE if kind is Slot.HANDLED else kind]
        case "UNPACK_SEQUENCE" | "UNPACK_EX":
            return stack[:-1] + [Slot.VALUE] * (effect + 1)
        case "PUSH_EXC_INFO":
            return [*stack[:-1], Slot.HANDLED, Slot.VALUE]
    if op in JUMPS or op.startswith(PUSH_NOTHING) or op in ("NOP", "MAKE_CELL"):
        return stack[: len(stack) + effect] if effect <= 0 else stack + [Slot.VALUE] * effect
    below = min(len(stack), len(stack) + effect - 1)
    return stack[:below] + [Slot.VALUE] * (len(stack) + effect - below)


def layouts(body):
    """For each instruction the kinds of the stack's slots and the cells that exist before it; None if never reached."""
    flow = Flow(body)
    known = [None] * len(body)
    todo = [(0, [], frozenset())]
    while todo:
        i, stack, cells = todo.pop()
        if known[i] is not None:
            continue
        known[i] = stack, cells
        instruction = body.instructions[i]
        if instruction.handler:
            handler = instruction.handler
            caught = stack[: handler.depth] + [Slot.LASTI] * handler.lasti + [Slot.VALUE]
            todo.append((flow.handler(i), caught, cells))
        after = cells_after(instruction, stack, cells)
        for n, following in enumerate(flow.successors[i]):
            jumps = n == 1 or instruction.op in NO_FALL_THROUGH
            todo.append((following, stack_after(instruction, stack, cells, jumps), after))
    return known


continuation = Continuations()


@dataclass
class Snapshot:
    """What a frame holds at a point: enough to go on from there."""

    stack: list
    variables: dict
    point: Point

    def continued(self, function):
        return with_code(function, continuation(function.__code__, self.point).code)

    def arguments(self, code):
        places = continuation(code, self.point).parameters
        return [self.stack[place] if isinstance(place, int) else self.variables[place] for place in places]

    def resume(self, function):
        return self.continued(function)(*self.arguments(function.__code__))


def stopped_at(function, index):
    """`function`, but returning a `Snapshot` when it gets to instruction `index`."""
    return with_code(function, stopping_code(function.__code__, index, lambda emit: emit.return_value()))


def split_code(code, index):
    """`code`, but leaving the rest to a continuation when it gets to instruction `index`."""

    def run(snapshot, frame_globals, closure):
        rest = continuation(code, snapshot.point).code
        return FunctionType(rest, frame_globals, code.co_name, None, closure)(*snapshot.arguments(code))

    def go_on(emit):
        emit.store_fast(".snapshot")
        emit.load_callable(run)
        emit.load_fast(".snapshot")
        emit.load_callable(lambda: sys._getframe(1).f_globals)
        emit.call(0)
        emit.build_closure(code.co_freevars)
        emit.call(3)
        emit.return_value()

    return stopping_code(code, index, go_on)


def stopping_code(code, index, then):
    """`code` with a detour before instruction `index`: there its frame becomes a `Snapshot`, for `then` to use."""
    body = Body.from_code(code)
    known = layouts(body)[index]
    if known is None:
        return code  # never reached
    layout, cells = known[0], sorted(known[1])
    if any(isinstance(slot, Saved) for slot in layout) and set(code.co_freevars).intersection(code.co_varnames):
        return code  # two variables of one name, which f_locals cannot tell apart
    handled = [place for place, slot in enumerate(layout) if slot is Slot.HANDLED]
    emit = Emitter()
    emit.append(_with_plain_attributes(body.instructions[:index]))
    start = emit.label()
    emit.place(start)
    for place in reversed(range(len(layout))):
        emit.store_fast(f".saved{place}")
    emit.load_callable(_looker(code, index, layout, cells, handled))
    emit.build_closure(cells)
    emit.call(1)
    if handled:  # leave the handlers, as returning would
        emit.load_fast(f".saved{handled[0]}")
        emit.emit("POP_EXCEPT")
    then(emit)
    emit.append(_with_plain_attributes(body.instructions[index:]))
    _redirect(body, body.instructions[index], start)
    return assemble(emit.body(), code)


def _looker(code, index, layout, cells, handled):
    """A function that makes a snapshot of the frame that calls it."""

    def look(cell_values):
        frame = dict(sys._getframe(1).f_locals)
        held = {place for place in range(len(layout)) if f".saved{place}" in frame}
        stack = [frame.pop(f".saved{place}", None) for place in range(len(layout))]
        kinds = [
            slot if isinstance(slot, Slot) else Slot.VALUE if i in held else Slot.NULL for i, slot in enumerate(layout)
        ]
        for place, above in zip(handled, [*(stack[p] for p in handled[1:]), sys.exc_info()[1]]):
            stack[place] = above
        own = set(code.co_varnames).difference(code.co_freevars)
        variables = {name: value for name, value in frame.items() if name in own}
        variables |= zip(cells, cell_values)
        return Snapshot(stack, variables, Point(index, tuple(kinds), frozenset(variables)))

    return look


def with_code(function, code):
    other = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    other.__kwdefaults__ = function.__kwdefaults__
    return other


def _redirect(body, old, new):
    for instruction in body:
        if instruction.arg is old:
            instruction.arg = new
        if instruction.handler and instruction.handler.target is old:
            instruction.handler.target = new


def _with_plain_attributes(instructions):
    """Looked up methods become a bound method and a NULL, never a function and its self: a slot has one kind."""
    emit = Emitter()
    for instruction in instructions:
        emit.append([instruction])
        if instruction.op in ("LOAD_METHOD", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_METHOD"):
            instruction.op = instruction.op.replace("METHOD", "ATTR")
            emit.positions, emit.handler = instruction.positions, instruction.handler
            emit.to_callable()
    return emit.instructions


@pytest.fixture(name="stopped_at")
def _stopped_at():
    return stopped_at
