"""Breaks: CPython runs the one instruction where evaluation stopped, and continuations take over wherever it leads.

An instruction may lead to three places, and in a loop the way may come here again::

    operands; the instruction        under a handler of our own, if the user's code has one here
    return rest(variables, stack)    after it
    return rest(variables, stack)    where it jumps
    return rest(variables, stack)    in the user's handler, with the exception

The code does not call a continuation, or it would be seen between that and the function's caller, and a loop would let
the stack grow with every round and keep alive what the program has let go: it returns what is left to do as a
``_engine.Rest``, and the engine does it once the frame is gone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeGuard

from capture import _engine
from capture.bytecode.flow import JUMPS, NO_FALL_THROUGH, stack_effect
from capture.bytecode.instructions import Instruction
from capture.bytecode.resume import Continuation, Continuations, Point, Slot
from capture.bytecode.versions import NULL_UNDER_CALLABLE
from capture.errors import InternalError
from capture.evaluator.assumptions import Stopped
from capture.evaluator.frame import NULL, Frame
from capture.evaluator.opcodes.exceptions import HandledValue
from capture.guards.sources import ArgSource
from capture.reasons import Kind
from capture.values.base import Value, settled
from capture.values.constant import NONE, UNBOUND
from capture.values.finalizers import end_is_noticed, has_history
from capture.values.function import CellValue
from capture.writing.writer import Writer

# These push two places, of which one may be NULL; it is known which after the plain attribute was read.
_AS_ATTRIBUTE = {
    "LOAD_METHOD": "LOAD_ATTR",
    "LOAD_SUPER_METHOD": "LOAD_SUPER_ATTR",
    "LOAD_ZERO_SUPER_METHOD": "LOAD_ZERO_SUPER_ATTR",
}
# How many values an opcode leaves that it pushed itself or only looked at, where that is not one.
_LEAVES = dict.fromkeys(("BEFORE_WITH", "FOR_ITER", "GET_LEN", "IMPORT_FROM", "CHECK_EXC_MATCH", "CHECK_EG_MATCH"), 2)
_LEAVES |= dict.fromkeys(("MATCH_MAPPING", "MATCH_SEQUENCE", *_AS_ATTRIBUTE), 2)
_LEAVES |= {"MATCH_KEYS": 3, "WITH_EXCEPT_START": 5, "LIST_TO_TUPLE": 1}
# These stop only where the variable is unbound; those that bind one stop never.
_NEED_A_VARIABLE = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "DELETE_FAST", "DELETE_DEREF"})
_BIND_A_VARIABLE = frozenset({"STORE_FAST", "STORE_DEREF", "LOAD_FAST_AND_CLEAR"})
_LEAVE_NOTHING = ("STORE_", "DELETE_", "POP_", "RAISE_", "RERAISE", "LIST_", "SET_", "DICT_", "MAP_", "RETURN_")


def operands_of(instruction: Instruction) -> int:
    """The number of places of the stack that an instruction takes or looks at."""
    op = instruction.op
    if op in ("UNPACK_SEQUENCE", "UNPACK_EX"):
        return 1
    if op == "DICT_MERGE":  # says what is called where it fails: below the dict lie the positional arguments and that
        return 3 + int(instruction.arg) + (not NULL_UNDER_CALLABLE)
    if op in ("LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE"):
        return 1 + int(instruction.arg)
    if op == "MAP_ADD":
        return 2 + int(instruction.arg)
    leaves = _LEAVES.get(op, 0 if op.startswith(_LEAVE_NOTHING) else 1)
    return leaves - stack_effect(instruction)


class Stop:
    """The end of the code for a frame that was not evaluated to its end."""

    def __init__(self, frame: Frame, stopped: Stopped, continuations: Continuations) -> None:
        self.frame = frame
        self.instruction = instruction = stopped.instruction
        self.continuations = continuations
        self.original = continuations.original(frame.code)
        self.moves_data = stopped.reason.kind is Kind.DATA_OF_A_TENSOR
        # Settled once: a lazy value that somebody looks at while code is written would be another value.
        self.stack = [settled(value) for value in frame.stack]
        self.first = len(self.stack) - operands_of(instruction)
        self.shown = self.stack[self.first :]
        self.null_place = self._place_left_null()
        self.unbound = self._unbound_variable()
        handler = instruction.handler
        self.after: Continuation | None = None
        self.jumped: Continuation | None = None
        self.handling: Continuation | None = None
        self.unraised: Callable[[], None] | None = None
        """Called where the instruction was expected to raise and did not."""
        if instruction.op not in NO_FALL_THROUGH:
            self.after = self._continuation(instruction.index + 1, self._depth(jump=False))
        if instruction.op in JUMPS:
            self.jumped = self._continuation(instruction.arg.index, self._depth(jump=True))
        if handler is not None:
            depth = handler.depth + handler.lasti + 1
            self.handling = self._continuation(handler.target.index, depth, raised=True)

    # -- where it leads ------------------------------------------------------------------------------------------

    def _depth(self, *, jump: bool) -> int:
        """The depth of the stack behind the instruction."""
        return len(self.stack) + stack_effect(self.instruction, jump=jump)

    def _place_left_null(self) -> int | None:
        """The place that the plain attribute leaves NULL, of the two that an instruction for methods pushes."""
        if self.instruction.op not in _AS_ATTRIBUTE:
            return None
        return self.first if NULL_UNDER_CALLABLE else self.first + 1

    def _unbound_variable(self) -> str | None:
        """The variable of this frame that the instruction asks for in vain."""
        op, arg = self.instruction.op, self.instruction.arg
        if op not in _NEED_A_VARIABLE | _BIND_A_VARIABLE or arg in self.frame.code.co_freevars:
            return None
        held = self.frame.slots.get(arg, UNBOUND)
        if isinstance(held, CellValue):
            held = held.content
        if op in _BIND_A_VARIABLE or held is not UNBOUND:
            raise InternalError(f"a stop at {op} {arg}, which CPython would do without the variable")
        return str(arg)

    def _continuation(self, index: int, depth: int, *, raised: bool = False) -> Continuation:
        """The continuation at an instruction, with what is on the stack and in the variables then."""
        index = self.original.place(index)
        offsets = self.original.flow.offsets_kept[index]
        slots = [Slot.LASTI if place in offsets else self._slot(place) for place in range(depth)]
        if raised:
            slots[-1] = Slot.VALUE  # the exception, whatever was there before
        free = frozenset(self.frame.code.co_freevars)
        bound = frozenset(name for name, value in self.frame.slots.items() if value is not UNBOUND and name not in free)
        histories = self.moves_data or self._may_move_data_from(index)
        with_finalizers = frozenset(name for name in bound if self._has_finalizer(name, histories=histories))
        return self.continuations(self.original.code, Point(index, tuple(slots), bound, with_finalizers))

    def _may_move_data_from(self, index: int) -> bool:
        """True if the code from there on may assign ``x.data``, where it matters what an old history keeps alive."""
        flow = self.original.flow
        if "data" not in self.original.code.co_names:
            return False
        pairs = zip(flow.instructions, flow.reachable(index), strict=True)
        return any(kept and each.op == "STORE_ATTR" and each.arg == "data" for each, kept in pairs)

    def _has_finalizer(self, name: str, *, histories: bool) -> bool:
        """True if somebody may notice when this variable is let go."""
        value = self.frame.slots[name]
        if histories and has_history(value):
            return True
        source = settled(value).source
        stays = name in self.original.with_finalizers and isinstance(source, ArgSource) and source.name == name
        return stays or end_is_noticed(value, self.shown)

    def _slot(self, place: int) -> Slot:
        """The kind of a place on the stack behind the instruction."""
        value = self.stack[place] if place < len(self.stack) else None
        if _is_handled(value):
            return Slot.HANDLED
        untouched = place < self.first or self.instruction.op == "DICT_MERGE"
        null = place == self.null_place or (value is NULL and untouched)
        return Slot.NULL if null else Slot.VALUE

    # -- what that needs -----------------------------------------------------------------------------------------

    def values(self) -> list[Value]:
        """All that has to be loaded before the instruction: its operands, and what continuations are given."""
        operands = [_object(value) for value in self.shown if value is not NULL]
        return operands + self._wanted_afterwards()

    def _wanted_afterwards(self) -> list[Value]:
        found = [_object(value) for value in self.stack[: self.first] if value is not NULL]
        for made in (self.after, self.jumped, self.handling):
            if made is not None:
                found += [self.frame.slots[p] for p in made.parameters if isinstance(p, str)]
        return found

    # -- the code ------------------------------------------------------------------------------------------------

    def write(self, writer: Writer) -> None:
        """Writes the code from the effects on: operands, the instruction, and each way that leads on."""
        emit = writer.emit
        emit.at(self.instruction)
        for value in self.values():
            _load_before_the_instruction(writer, value, self.unbound)
        writer.let_go(self.values())
        # Exceptions that are being handled further down are put in force as well: the instruction may ask for them.
        outer = [value for value in self.stack[: self.first] if _is_handled(value)]
        shown = outer + self.stack[self.first :]
        for value in shown:
            _show(writer, value)
        if self.instruction.op == "POP_TOP":
            writer.let_go(self._wanted_afterwards())
        target, stub = emit.label(), emit.label()
        with emit.handled_by(stub, _handled_depth(shown)) if self.handling else contextlib.nullcontext():
            self._run(writer, target)
        if self.after is not None:
            self._go_on(writer, self.after, len(outer), jump=False)
        if self.jumped is not None:
            emit.place(target)
            self._go_on(writer, self.jumped, len(outer), jump=True)
        if self.handling is not None:
            emit.place(stub)
            self._handle(writer, self.handling, shown)

    def _run(self, writer: Writer, target: Instruction) -> None:
        """Writes the instruction itself."""
        op, arg = self.instruction.op, self.instruction.arg
        if self.unbound is not None:  # cells are variables like others here
            if op.startswith("DELETE_"):
                writer.emit.delete_fast(self.unbound)
            else:
                writer.emit.load_fast(self.unbound, may_be_unbound=True)
            return
        if op == "RERAISE":
            arg = 0  # no offset of this code lies below
        writer.emit.emit(_AS_ATTRIBUTE.get(op, op), target if self.jumped is not None else arg)

    def _go_on(self, writer: Writer, made: Continuation, outer: int, *, jump: bool) -> None:
        """Take what the instruction left off the stack and call the continuation with it."""
        emit, left = writer.emit, {}
        for place in range(self._depth(jump=jump) - 1, self.first - 1, -1):
            if place == self.null_place:
                continue
            # The continuation handles it anew, so that here it is put away.
            if self._slot(place) is Slot.HANDLED:
                emit.emit("POP_EXCEPT")
            else:
                left[place] = writer.fresh("stack")
                emit.store_fast(left[place])
        for _ in range(outer):
            emit.emit("POP_EXCEPT")
        # Only behind the instruction is it known that it did not raise.
        if self.unraised is not None:
            emit.load_callable(self.unraised)
            emit.call(0)
            emit.pop()
        self._call(writer, made, left)

    def _handle(self, writer: Writer, made: Continuation, shown: Sequence[Value]) -> None:
        """Writes the way to the user's handler: what is handled here is put away, and the exception handed over."""
        emit, raised = writer.emit, writer.fresh("raised")
        emit.store_fast(raised)
        for value in reversed(shown[: _handled_depth(shown)]):
            if _is_handled(value):
                emit.emit("POP_EXCEPT")
            else:
                emit.pop()
        handler = self.instruction.handler
        assert handler is not None
        self._call(writer, made, {handler.depth + handler.lasti: raised})

    def _call(self, writer: Writer, made: Continuation, left: dict[int, str]) -> None:
        """Leaves the continuation to the engine: the engine runs it once this frame is gone."""
        emit, free = writer.emit, self.frame.code.co_freevars
        emit.load_callable(_engine.rest)
        if free:
            emit.build_closure(free)
        emit.make_function(made.code, closure=bool(free))
        for parameter in made.parameters:
            if not isinstance(parameter, int):
                writer.load(self.frame.slots[parameter])
            elif parameter in left:
                emit.move_fast(left[parameter])
            else:
                writer.load(_object(self.stack[parameter]))
        # What nobody wants any more ends here, as in CPython, and not when the rest of the function has run.
        writer.let_go_all()
        emit.call(1 + len(made.parameters))
        emit.return_value()


def _is_handled(value: Value | None) -> TypeGuard[HandledValue]:
    """True for the place of an exception that is being handled."""
    return isinstance(value, HandledValue) and not value.put_away


def _object(value: Value) -> Value:
    """The value that a place stands for."""
    if isinstance(value, HandledValue):
        return NONE if value.put_away else value.handled
    return value


def _handled_depth(shown: Sequence[Value]) -> int:
    """The part of the stack that has to stay so that every exception being handled can be put away."""
    return max((place + 1 for place, value in enumerate(shown) if _is_handled(value)), default=0)


def _show(writer: Writer, value: Value) -> None:
    """Pushes a value; an exception that is being handled is handled here."""
    if value is NULL:
        writer.emit.push_null()
        return
    writer.load(_object(value))
    if _is_handled(value):
        writer.emit.emit("PUSH_EXC_INFO")
        writer.emit.pop()


def _load_before_the_instruction(writer: Writer, value: Value, unbound: str | None) -> None:
    """Loads what is wanted behind the instruction before it, as it may change anything.

    What comes from a path is read, and what is new is built.  An argument that is wanted still, but not under its
    name, leaves that name.
    """
    value = settled(value)
    stays = isinstance(value.source, ArgSource) and value.source.name != unbound
    if stays or writer.is_kept(value):
        return
    writer.load(value)
    if writer.is_kept(value):
        writer.emit.pop()
    else:
        writer.keep(value)
