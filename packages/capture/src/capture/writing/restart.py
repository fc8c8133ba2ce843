"""A graph that raises, or a check after it that fails: the frame starts over in CPython.

Nothing that the program did to Python's objects is real before its graph has returned, so nothing happens twice.  The
error of an operator is then raised by the line that the user wrote, after the effects that come before it and where
the user's handlers see it; and a graph that fails where the program does not is no more than slow.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FunctionType
from typing import Any, NoReturn

import torch
import torch.utils.checkpoint

from capture._engine import Outside
from capture.bytecode.assembler import assemble
from capture.bytecode.emitter import Emitter
from capture.bytecode.instructions import Instruction
from capture.errors import CaptureError, CaptureWarning, InternalError, Location, Unsupported, words_of
from capture.informing import inform
from capture.log import BreakRecord, FallbackRecord, Log
from capture.reasons import Kind, Reason
from capture.recording.draws import put_back, states_of
from capture.signals import comes_from_elsewhere
from capture.values.base import Value
from capture.values.parameters import all_positional, argument_names
from capture.writing.writer import Writer

Tell = Callable[[FallbackRecord], None]
_OFTEN = 3
# The exceptions by which a checkpoint ends what it runs again, once all that backward needs is there: no errors.
_ENDS = tuple(filter(None, [getattr(torch.utils.checkpoint, "_StopRecomputationError", None)]))


class Failures:
    """The object that the code of one frame asks, and tells, when its graph raised."""

    def __init__(
        self,
        location: Location,
        tell: Tell,
        be_cautious: Callable[[], None],
        *,
        handled: bool,
        strict: bool,
        has_effects: bool,
    ) -> None:
        self.has_effects = has_effects
        self._ended = threading.local()
        self.location = location
        self.tell = tell
        self.be_cautious = be_cautious
        self.handled = handled
        self.strict = strict
        self.last = ""
        self.graph: Callable[..., Any] | None = None
        self.place: Callable[[BaseException], CodeType | None] | None = None
        """For a continuation: code that raises an exception where it stands."""
        self.rare = True  # failed checks; a guard of code that has some
        self._failed_checks = 0
        self._reported: set[str] = set()

    def start_over(self, error: BaseException) -> bool:
        """True if CPython is to run the frame after this error of its graph."""
        self.last = f"the graph raised {words_of(error)}"
        is_final = getattr(self.graph, "is_final", None)
        # Something was written that cannot be taken back: the error is the program's to see.
        if is_final is not None and is_final(error):
            return False
        if isinstance(error, _ENDS) and self.has_effects:
            self._ended.error = error
            return True
        if not isinstance(error, Exception) or isinstance(error, (CaptureError, CaptureWarning, *_ENDS)):
            return False
        return not comes_from_elsewhere(error)

    def in_cpython(self, function: FunctionType) -> Callable[..., object]:
        """The frame's own function, to be called in its place."""
        end = vars(self._ended).pop("error", None)
        return Outside(function) if end is None else Ended(function, end)

    def raising(self, function: FunctionType, error: BaseException) -> Outside:
        """A function that raises an error of a continuation's graph, which is final, in the continuation's place."""
        code = self.place(error) if self.place is not None else None
        assert code is not None
        made = FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)
        return Outside(made)

    def count(self) -> None:
        """Counts a check that failed.  Where that is no rare thing the graph had better end there."""
        self.last = "a check of what the graph computed failed"
        self._failed_checks += 1
        if self._failed_checks == _OFTEN:
            self.be_cautious()
            self.rare = False

    def passed(self) -> None:
        """Tells that CPython ran the frame and returned: the program handles the error, or only the graph made it."""
        reason = Reason(Kind.ERROR_IN_A_GRAPH, f"{self.last}; CPython ran the function, and found no error")
        if self.strict and not self.handled:
            raise InternalError(f"{self.location}: {reason.explanation}")
        if self.last in self._reported:
            return
        self._reported.add(self.last)
        self.tell(FallbackRecord(self.location, reason))
        if not self.handled:
            inform(CaptureWarning(f"{self.location}: {reason.explanation}"), self.location)


class Ended:
    """The frame run for its effects alone, where a checkpoint ended it.

    In eager these come before the last tensor that backward needs, and in a graph behind it.
    """

    def __init__(self, function: FunctionType, end: BaseException) -> None:
        self.function = function
        self.end = end

    def __call__(self, *args: object) -> NoReturn:
        with torch.no_grad():
            Outside(self.function)(*args)
        raise self.end


class Unraised:
    """Called where an instruction was expected to raise and did not: the function went on, which is a break."""

    def __init__(self, log: Log, nopython: bool, record: BreakRecord) -> None:
        self.log = log
        self.nopython = nopython
        self.record = record
        self._reported = False

    def __call__(self) -> None:
        if self.nopython:
            raise Unsupported(self.record.reason, self.record.location)
        if not self._reported:
            self._reported = True
            self.log.add(self.record)


class StartingOver:
    """Writes the code around the call of the graph that starts the frame over in CPython."""

    def __init__(self, writer: Writer, failures: Failures, drawn_on: Collection[torch.device]) -> None:
        self.writer = writer
        self.failures = failures
        self.drawn_on = drawn_on
        self._states = writer.fresh("states") if drawn_on else ""
        self._failed = writer.emit.label()
        self._refuted = writer.emit.label()

    @contextlib.contextmanager
    def around_the_graph(self) -> Iterator[None]:
        """A context of code whose errors are the graph's; states of generators are kept from before it."""
        emit = self.writer.emit
        if self.drawn_on:
            emit.load_callable(states_of(self.drawn_on))
            emit.call(0)
            emit.store_fast(self._states)
        with emit.handled_by(self._failed, 0):
            yield

    def unless(self, value: Value, truth: bool) -> None:
        """Starts over unless this is the truth of the value."""
        self.writer.load(value)
        jump = self.writer.emit.jump_if_false if truth else self.writer.emit.jump_if_true
        jump(self._refuted)

    def write(self, let_go: Callable[[], None]) -> None:
        """Writes the ways on which the graph raised or a check failed, behind the last instruction.

        Nothing else leads there.  ``let_go`` writes the release of the locks that are held around the graph.
        """
        emit = self.writer.emit
        begin, run, interrupted = emit.label(), emit.label(), emit.label()
        emit.place(self._failed)
        emit.emit("PUSH_EXC_INFO")
        with emit.handled_by(interrupted, 1, lasti=True):
            let_go()
            emit.load_callable(self.failures.start_over)
            # Below the two places of the callable lies the error.
            emit.copy(3)
            emit.call(1)
            emit.jump_if_true(begin)
            emit.swap(2)
        emit.emit("POP_EXCEPT")
        if self.failures.place is None:
            emit.emit("RERAISE", 0)
        else:
            self._raise_in_place()
        emit.place(begin)
        emit.pop()
        emit.emit("POP_EXCEPT")
        emit.jump(run)
        emit.place(self._refuted)
        let_go()
        emit.load_callable(self.failures.count)
        emit.call(0)
        emit.pop()
        emit.place(run)
        self._run_as_before_the_graph()
        emit.load_callable(self.failures.passed)
        emit.call(0)
        emit.pop()
        emit.return_value()
        emit.put_back_handled(interrupted)

    def outdated(self, label: Instruction, let_go: Callable[[], None]) -> None:
        """Writes the way on which what was read has changed, behind the last instruction as well: that is no error."""
        self.writer.emit.place(label)
        let_go()
        self._run_as_before_the_graph()
        self.writer.emit.return_value()

    def _run_as_before_the_graph(self) -> None:
        emit = self.writer.emit
        if self.drawn_on:
            emit.load_callable(put_back)
            emit.load_fast(self._states)
            emit.call(1)
            emit.pop()
        run_the_frame(self.writer, self.failures.in_cpython)

    def _raise_in_place(self) -> None:
        """Raises the exception on top where the continuation stands: in its ``with`` and ``try`` blocks."""
        emit, error = self.writer.emit, self.writer.fresh("error")
        emit.store_fast(error)
        emit.load_callable(self.failures.raising)
        _make_the_function(self.writer)
        emit.move_fast(error)
        emit.call(2)
        _call_as_it_came(self.writer)
        emit.return_value()


def run_the_frame(writer: Writer, by: Callable[..., object] = Outside) -> None:
    """Runs the original code by CPython, with the arguments as they came; leaves its result."""
    writer.emit.load_callable(by)
    _make_the_function(writer)
    writer.emit.call(1)
    _call_as_it_came(writer)


def left_to_cpython(code: CodeType) -> CodeType:
    """The code by which CPython runs the original itself; frames that it calls are treated as ever."""
    line, template = code.co_firstlineno, all_positional(code)
    emit = Emitter((line, line, None, None))
    emit.prologue()
    run_the_frame(Writer(code, emit))
    emit.return_value()
    arguments = template.co_varnames[: template.co_argcount]
    return assemble(emit.body(), template, co_varnames=arguments, co_cellvars=(), co_consts=template.co_consts[:1])


def _make_the_function(writer: Writer) -> None:
    emit, code = writer.emit, writer.code
    if code.co_freevars:
        emit.build_closure(code.co_freevars)
    emit.make_function(all_positional(code), closure=bool(code.co_freevars))


def _call_as_it_came(writer: Writer) -> None:
    """Calls the object on top with the arguments."""
    emit = writer.emit
    emit.to_callable()
    names = argument_names(writer.code)
    for name in names:
        emit.move_fast(name)
    emit.call(len(names))
