"""Loops that CPython runs: their instructions as they are, and a continuation wherever control leaves them.

    LOOP: ...                    the original's instructions, copied
          POP_JUMP_IF_FALSE B
          JUMP LOOP
       B: return rest(variables, stack)     the code behind the loop is captured again, as what is left of the function

Whether a loop is better off there is nobody's business here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import CodeType

from capture import _engine
from capture.bytecode.emitter import Emitter
from capture.bytecode.flow import JUMPS, NO_FALL_THROUGH, Flow
from capture.bytecode.instructions import Handler, Instruction
from capture.bytecode.resume import Continuation, NotResumable, Point, Slot, reads_frames
from capture.bytecode.versions import OPERANDS, Operand

Continue = Callable[[CodeType, Point], Continuation]


class LoopInCPython:
    """The instructions that run the rest of a loop in CPython, with a continuation wherever control leaves the loop.

    A `Section` of the function: `rest` are copies of the loop's instructions and the exits, `target` is the instruction
    at which the frame goes on.
    """

    def __init__(self, code: CodeType, flow: Flow, point: Point, loop: frozenset[int], continued: Continue) -> None:
        self._code, self._flow, self._point, self._loop = code, flow, point, loop
        self._continued = continued
        self._bound = _Bound(flow, point, loop)
        # An exit may only rely on places of the stack that exist, and stay what they are, all through the loop.
        self._depth = min(depth for i in loop if (depth := flow.depths[i]) is not None)
        self._emit = Emitter()
        self._leaving: dict[int, Instruction] = {}
        self._handlers: dict[int, Handler] = {}
        inside = sorted(self._bound.reached)
        # Copies, as jump targets and handlers are about to be changed, and the body belongs to a cached `Flow`.
        self._copies = {i: replace(flow.instructions[i]) for i in inside}
        self.target = self._copies[point.index]
        for i in inside:
            self._copy(i)
        for i, label in self._leaving.items():
            self._leave(i, label)
        self.rest = self._emit.instructions

    def _copy(self, i: int) -> None:
        """Appends the copy of instruction `i`, its jump and handler led to copies or exits."""
        copied = self._copies[i]
        self._emit.append([copied])
        if copied.op in JUMPS:
            copied.arg = self._place(self._flow.position(copied.arg))
        if copied.handler is not None:
            copied.handler = self._handler(copied.handler)
        # What falls out of the loop at its end would fall into whatever copy comes next.
        if copied.op not in NO_FALL_THROUGH and i + 1 not in self._loop:
            self._emit.at(copied)
            self._emit.jump(self._place(i + 1))

    def _place(self, i: int) -> Instruction:
        """The instruction to go to for instruction `i`: its copy, or the label of an exit outside of the loop."""
        if i in self._loop:
            return self._copies[i]
        return self._leaving.setdefault(i, Instruction("NOP", None, self._flow.instructions[i].positions))

    def _handler(self, handler: Handler) -> Handler:
        """The handler for the copies: one object for all instructions under it, by which the assembler groups them."""
        known = self._handlers.get(id(handler))
        if known is None:
            target = self._place(self._flow.position(handler.target))
            known = self._handlers[id(handler)] = Handler(target, handler.depth, handler.lasti)
        return known

    def _leave(self, i: int, label: Instruction) -> None:
        """Hand over the stack and the variables; in a handler the exception, which is on top."""
        emit, handler = self._emit, self._caught_at(i)
        made = self._continuation(i, handler)
        emit.positions = label.positions
        emit.place(label)
        # Under a handler with `lasti` the offset lies below the exception. It is one of this very code and means
        # nothing in the continuation, which makes its own.
        lasti = handler.depth if handler is not None and handler.lasti else None
        depth = self._flow.depths[i]
        assert depth is not None
        kept = {place: f".left{place}" for place in range(depth)}
        for place in reversed(range(depth)):
            if place == lasti:
                emit.pop()
            else:
                emit.store_fast(kept[place])
        # A call of the engine's `rest` makes no call yet: the engine runs the continuation once this frame is gone.
        free = self._code.co_freevars
        emit.load_callable(_engine.rest)
        if free:
            emit.build_closure(free)
        emit.make_function(made.code, closure=bool(free))
        for parameter in made.parameters:
            if isinstance(parameter, int):
                emit.move_fast(kept[parameter])
            elif parameter.removesuffix("'") in self._code.co_cellvars:
                emit.load_cell(parameter)
            else:
                emit.move_fast(parameter)
        emit.call(1 + len(made.parameters))
        emit.return_value()

    def _caught_at(self, i: int) -> Handler | None:
        """The handler whose target instruction `i` is, if an exception raised in the loop arrives there."""
        handlers = (self._flow.instructions[j].handler for j in self._bound.reached)
        target = self._flow.instructions[i]
        return next((handler for handler in handlers if handler is not None and handler.target is target), None)

    def _continuation(self, i: int, handler: Handler | None) -> Continuation:
        """The continuation from exit `i` on, where the state there is the same whichever round the loop is left in."""
        depth = self._flow.depths[i]
        assert depth is not None
        below = depth if handler is None else handler.depth
        # A variable that is only sometimes bound, or a place on the stack that the loop has changed, would need one
        # continuation for each way out.
        surely, maybe = self._bound.before(i)
        asked = maybe if reads_frames(self._code) else self._flow.live().before(i) & maybe
        if not asked <= surely or below > min(self._depth, len(self._point.stack)):
            raise NotResumable(f"{self._code.co_qualname}: what a loop leaves behind differs from round to round")
        slots = [self._slot(i, place) for place in range(below)]
        if handler is not None:
            slots += [Slot.LASTI] * handler.lasti + [Slot.VALUE]
        return self._continued(self._code, Point(i, tuple(slots), surely, surely))

    def _slot(self, i: int, place: int) -> Slot:
        """A place of the stack below the loop, which has to hold an object that the loop leaves alone."""
        slot = self._point.stack[place]
        if slot is not Slot.VALUE or place in self._flow.offsets_kept[i]:
            raise NotResumable(f"{self._code.co_qualname}: a loop in the handler of an exception")
        return slot


class _Bound:
    """The variables that surely, and those that possibly, have a value at instructions of a loop and its exits.

    Forward data flow from the point at which the loop is entered, until nothing changes any more.
    """

    def __init__(self, flow: Flow, point: Point, loop: frozenset[int]) -> None:
        self._flow = flow
        self._states = {point.index: (point.bound, point.bound)}
        todo = [point.index]
        while todo:
            i = todo.pop()
            for j, state in self._onward(i):
                known = self._states.get(j)
                # Bound on all ways here, and on any of them.
                merged = state if known is None else (known[0] & state[0], known[1] | state[1])
                if merged != known:
                    self._states[j] = merged
                    # The state outside is wanted where control arrives, and no further.
                    if j in loop:
                        todo.append(j)
        self.reached = [i for i in self._states if i in loop]

    def before(self, i: int) -> tuple[frozenset[str], frozenset[str]]:
        return self._states[i]

    def _onward(self, i: int) -> Iterator[tuple[int, tuple[frozenset[str], frozenset[str]]]]:
        before = after = self._states[i]
        instruction = self._flow.instructions[i]
        if OPERANDS.get(instruction.op) is Operand.SLOT:
            name = frozenset({instruction.arg})
            if instruction.op == "STORE_FAST":
                after = before[0] | name, before[1] | name
            elif instruction.op in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
                after = before[0] - name, before[1] - name
        for j in self._flow.successors[i]:
            yield j, after
        handler = self._flow.handler(i)
        if handler is not None:
            # The exception leaves before the instruction has stored or deleted anything.
            yield handler, before
