"""Signals that come while a frame is captured or compiled: their handlers wait until the next instruction.

Evaluation runs torch's operators on fake tensors, and there C++ calls Python at places which no exception may leave: a
handler that raises, as that of Ctrl-C does, would end the process.  While a backend compiles, nothing waits.

What a handler raises is the program's own, a time limit by ``SIGALRM`` say, and wherever it comes it is no mistake of
ours: it travels as ``Delivered``, which no ``except Exception`` on its way takes for one.  So does what another thread
sets by ``PyThreadState_SetAsyncExc``, which nothing can hold back: whoever catches anything says ``let_through`` first.

Handlers find torch's modes as the program left them (``surroundings``), and functions that they call are not captured
meanwhile: both are in the middle of something.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # looks nothing up that a program may have replaced
import dis
import functools
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, CodeType
from typing import Any

from capture import state
from capture.surroundings import Surroundings

Handler = Callable[[int, Any], Any]

_NUMBERS = (
    _signal.SIGINT,
    *sorted(_signal.valid_signals() - {_signal.SIGINT}),
)
"""The one of Ctrl-C is the first to be replaced and the last to be put back."""


class Delivered(BaseException):
    """Carries an exception of the program's handler past everything that mends mistakes of ours."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def carrying() -> Iterator[None]:
    """A context of code out of which exceptions of handlers are carried, to be unwrapped further out."""
    here = state.PROCESS.of_thread
    here.carrying += 1
    try:
        yield
    finally:
        here.carrying -= 1


class Wrapped:
    """A handler of the program's whose exceptions are carried, and that finds torch as the program left it."""

    def __init__(self, handler: Handler, surroundings: Surroundings) -> None:
        self.handler = handler
        self.surroundings = surroundings

    def __call__(self, number: int, frame: object) -> None:
        here = state.PROCESS.of_thread
        here.handling += 1
        try:
            with self.surroundings.back():
                self.handler(number, frame)
        except Exception as error:  # noqa: BLE001 - whatever it raises is the program's
            raise Delivered(error) from None
        finally:
            here.handling -= 1


@contextmanager
def carried() -> Iterator[None]:
    """A context around a compiler: what a handler raises leaves it as it was raised, whatever is caught within.

    Inside another one, the outer one unwraps it.
    """
    wrapped: dict[int, Wrapped] = {}
    try:
        _wrap(wrapped, Surroundings.now())
        with carrying():
            yield
        return
    except Delivered as delivered:
        if state.PROCESS.of_thread.carrying:
            raise
        arrived = delivered.error
    finally:
        _unwrap(wrapped)
    raise arrived  # and not in the handler, where what carried it would be its context


def let_through(error: BaseException) -> None:
    """Raises what did not come from a call, for whoever catches what the call may raise."""
    reason: BaseException | None = error
    while reason is not None:
        if isinstance(reason, Exception) and comes_from_elsewhere(reason):
            raise Delivered(reason) from None
        reason = reason.__cause__


def comes_from_elsewhere(error: BaseException) -> bool:
    """True if an exception came out of the handler of a signal, or was set by another thread."""
    return raised_by_a_handler(error) or set_by_a_thread(error)


_LOOKS_UP = frozenset({"RESUME", "JUMP_BACKWARD"})  # where CPython looks for what is pending, and nothing else raises
_CALLS = frozenset({"PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX"})
# In the place of a message, by who runs a graph's nodes; torch has errors of its own that begin alike.
_SAID_BY_FX = "While executing %"
_WITHOUT_A_WORD = (MemoryError, StopIteration, StopAsyncIteration, GeneratorExit)


def set_by_a_thread(error: BaseException) -> bool:
    """True if no instruction raised it.

    CPython makes an instance without arguments where it looks for what is pending, which is at the start of a
    function, behind a call and where a loop goes round.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or error.__cause__ is not None:
        return False
    name = dis.opname[last.tb_frame.f_code.co_code[last.tb_lasti]]
    return name in _LOOKS_UP or (name in _CALLS and _says_nothing(error))


def _says_nothing(error: BaseException) -> bool:
    is_of_fx = all(type(arg) is str and arg.startswith(_SAID_BY_FX) for arg in error.args)
    return is_of_fx and not isinstance(error, _WITHOUT_A_WORD)


def raised_by_a_handler(error: BaseException) -> bool:
    """True if an exception came out of the handler of a signal."""
    handlers = [_signal.getsignal(number) for number in _NUMBERS]
    codes = [_code(handler) for handler in handlers if callable(handler)]
    # By identity: a code object compares and hashes its constants, which may be anything.
    return any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__) for code in codes)


def _code(handler: object) -> CodeType | None:
    """The code that runs when a handler is called; None for one in C."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__") and not isinstance(handler, BuiltinFunctionType):
        handler = type(handler).__call__
    return getattr(handler, "__code__", None)


def _wrap(wrapped: dict[int, Wrapped], surroundings: Surroundings) -> None:
    """Wraps the handlers of the program, in the main thread: elsewhere there is nothing to wrap, and no one may."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _NUMBERS:
        handler = _signal.getsignal(number)
        if callable(handler) and not isinstance(handler, Wrapped):
            wrapped[number] = Wrapped(handler, surroundings)
            _signal.signal(number, wrapped[number])


def _unwrap(wrapped: dict[int, Wrapped]) -> None:
    """Puts the handlers back, in reverse; what was set meanwhile stays.

    A Ctrl-C in the middle of it is raised when all are back.
    """
    try:
        _put_back_all(wrapped)
    finally:
        _put_back_all(wrapped)


def _put_back_all(wrapped: dict[int, Wrapped]) -> None:
    for number, handler in reversed(wrapped.items()):
        if _signal.getsignal(number) is handler:
            _signal.signal(number, handler.handler)


class HeldSignals:
    """The handlers that wait, while one translation is under way in the main thread; no others run any."""

    def __init__(self) -> None:
        self._handlers: dict[int, Handler] = {}
        self._surroundings: Surroundings  # while they wait: a torch that does not tell captures nothing
        self.waiting: list[int] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """A context in which handlers wait until the next instruction."""
        if self._handlers or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._surroundings = Surroundings.now()
        try:
            self._hold()
            yield
        finally:
            self._put_back()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """A context in which nothing waits, while a backend compiles."""
        held = bool(self._handlers)
        self._put_back()
        wrapped: dict[int, Wrapped] = {}
        try:
            if held:
                _wrap(wrapped, self._surroundings)
            yield
        finally:
            _unwrap(wrapped)
            if held:
                self._hold()

    def deliver(self) -> None:
        """Handles, between two instructions, what came meanwhile; it may raise."""
        while self.waiting:
            try:
                number = self.waiting.pop(0)
            except IndexError:  # another one came just now, and took the last of its kind along
                return
            self._handle(number, sys._getframe(1))

    def _handle(self, number: int, frame: object) -> None:
        handler = self._handlers.get(number)
        if handler is not None:
            Wrapped(handler, self._surroundings)(number, frame)

    def _hold(self) -> None:
        for number in _NUMBERS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler != self._note:
                self._handlers[number] = handler
                _signal.signal(number, self._note)

    def _put_back(self) -> None:
        """Gives the handlers back to Python, and then handles what has waited."""
        held = dict(self._handlers)
        while self._handlers:
            _signal.signal(*self._handlers.popitem())
        self._handlers.update(held)
        try:
            self.deliver()
        finally:
            self._handlers.clear()

    def _note(self, number: int, frame: object) -> None:
        """Takes note of a signal; a second one of its kind does not wait.

        Where an instruction takes that long, somebody wants out.
        """
        if number in self.waiting and number in self._handlers:
            self.waiting.remove(number)
            self._handle(number, frame)
        else:
            self.waiting.append(number)
