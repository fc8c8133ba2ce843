"""Stepping frames: one instruction after the other, up to a return, a suspension or a stop.

The root's instructions are steps of their own, which can be stopped at; those of the frames that it calls belong to the
step of the root that called them.
"""

from __future__ import annotations

import sys
from types import CodeType

from capture.bytecode.flow import raises_again
from capture.bytecode.instructions import Body, Instruction
from capture.errors import Break, SkipFrame, UserRaised
from capture.evaluator.assumptions import Restart, Returned, Stopped
from capture.evaluator.forgotten import Forgotten
from capture.evaluator.frame import Frame
from capture.evaluator.frame_queries import stack_depth
from capture.evaluator.idle_frames import MOST_STEPS
from capture.evaluator.opcodes import HANDLERS
from capture.evaluator.stops import Stops
from capture.evaluator.world import World
from capture.reasons import Kind, Reason
from capture.recording.operations import undecided
from capture.signals import HeldSignals
from capture.values.base import NotConstant, Value
from capture.values.constant import ConstantValue
from capture.values.finalizers import require_quiet_pop

_DEEPEST = 150
_FRAMES_PER_CALL = 14  # of Python's, at most, that evaluating a call takes

_ASK_A_CELL = frozenset({"LOAD_DEREF", "DELETE_DEREF"})


class Stepper:
    """The frames under evaluation, and the walk through their instructions.

    ``frames`` are called each by the one before; ``visited`` are the root's instructions.
    """

    def __init__(self, world: World, signals: HeldSignals) -> None:
        self._world = world
        self._signals = signals
        self.frames: list[Frame] = []
        self.forgotten = Forgotten(world)
        self.steps, self.most_idle = 0, MOST_STEPS
        self.visited: set[int] = set()
        self._bodies: dict[CodeType, list[Instruction]] = {}
        self._deepest = min(_DEEPEST, (sys.getrecursionlimit() - stack_depth()) // _FRAMES_PER_CALL)

    def body(self, code: CodeType) -> list[Instruction]:
        """The instructions of a code object; those of two frames of it are the same."""
        body = self._bodies.get(code)
        if body is None:
            body = self._bodies[code] = Body.from_code(code).instructions
        return body

    def run_root(self, frame: Frame, stops: Stops) -> Returned | Stopped:
        """Evaluate the root frame until it returns or has to stop."""
        world = self._world
        self.frames.append(frame)
        while True:
            if (known := stops.begin_step()) is not None:
                if (
                    known.instruction.op in _ASK_A_CELL
                ):  # in vain, which is relied on; a continuation is given it unseen
                    frame.cell(known.instruction.arg)
                return stops.insist_on_leaving(frame, known)
            # The state before the instruction: a stop leaves the frame so, unless something cannot be taken back.
            stack, done, pc = list(frame.stack), stops.done(), frame.pc
            self.visited.add(pc)
            world.graph.mode.journal.place = (frame.instructions[pc], stops.step)
            try:
                self.step(frame)
            except (Break, UserRaised) as signal:
                stopped = stops.stopped(frame, signal)
                # Too late to stop here: evaluation restarts, and stops before this step.
                if stops.done() != done:
                    raise Restart(world.assumptions.stopping(stopped)) from None
                frame.stack, frame.pc = stack, pc
                return stops.insist_on_leaving(frame, stopped)
            stack.clear()
            self.forgotten.look(frame)
            if frame.returned is not None:
                stops.leave_none_open([frame.returned])
                return Returned(frame.returned)

    def run(self, frame: Frame) -> Value | None:
        """Run an inner frame up to its return, or its next yield (then None is its ``returned``)."""
        if len(self.frames) > self._deepest:
            self._world.stop(Kind.RECURSION, f"calls are nested more than {self._deepest} deep")
        self.frames.append(frame)
        try:
            while frame.returned is None and frame.yielded is None:
                self.step(frame)
                self.forgotten.look(frame)
        # Its frames are in the traceback, which is what keeps their variables.
        except UserRaised:
            self.frames.pop()
            self.forgotten.left_by_an_error(frame)
            raise
        except BaseException:  # restarts and stops are exceptions as well, and leave the frame like any other
            self.frames.pop()
            raise
        self.frames.pop()
        return frame.returned

    def step(self, frame: Frame) -> None:
        """Evaluate one instruction."""
        if self._signals.waiting:
            self._signals.deliver()
        world = self._world
        instruction = frame.current = frame.instructions[frame.pc]
        frame.pc += 1
        self.steps += 1
        if self.steps == self.most_idle:
            self._leave_long_idleness()
        handler = HANDLERS.get(instruction.op)
        if handler is None:
            world.stop(Kind.OPCODE, f"the opcode {instruction.op} is not evaluated symbolically")
        try:
            handler(world, frame, instruction)
        except UserRaised as raised:
            self.unwind(frame, instruction, raised)
        except undecided():
            world.stop(Kind.DATA_DEPENDENT_OPERATION, "a data-dependent size decides what happens next")
        except Warning as warning:  # of what evaluation asked or made; where CPython does it, the program is to meet it
            world.stop(Kind.WARNING, f"a warning is an error: {warning}")
        except NotConstant:
            world.stop(Kind.VALUE, f"{instruction.op} needs a value that is known only when the program runs")

    def _leave_long_idleness(self) -> None:
        """Leaves a frame to CPython that computed no tensor for long: CPython is many times faster at it."""
        options = self._world.options
        if options.leave_idle and not options.nopython and not self._world.graph.computes():
            raise SkipFrame(Reason(Kind.IDLE, f"{self.steps} instructions of it computed no tensor"))

    def unwind(self, frame: Frame, instruction: Instruction, raised: UserRaised) -> None:
        """Goes to the handler of an instruction, or out of the frame."""
        handler = instruction.handler
        if not raises_again(instruction):
            raised.value.was_raised()
        if handler is None:
            try:
                raise raised
            finally:
                del raised  # this frame is in its traceback: what the program let go would live on in a cycle
        raised.was_caught()
        self._world.note_origin(raised.value)
        raised.value.caught = True
        for dropped in frame.stack[handler.depth :]:
            require_quiet_pop(self._world, dropped)
        del frame.stack[handler.depth :]
        # The offset is in this very code, where the handler that raises again looks for it.
        if handler.lasti:
            frame.push(ConstantValue(instruction.offset))
        frame.push(raised.value)
        frame.jump(handler.target)

    def let_go(self) -> None:
        for frame in self.frames:
            frame.let_go()
        self.frames.clear()
        self.forgotten.let_go()
