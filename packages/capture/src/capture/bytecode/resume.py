"""Continuations: what is left of a function, as a function.

When capture stops in the middle of a function, the rest must run somewhere.  ``continuation(code, point)`` makes a code
object that takes what the interrupted frame holds (values on its stack, local variables, cells) as parameters, puts
everything in its place and goes on at the point::

    original                         continuation at C, one value on the stack
        A                                put the parameters in their places
        B                                RESUME
    C:  ...        jumps back to B       JUMP C
        ...                              B            (A cannot be reached any more and is gone)
                                     C:  ...

The body is the original one, so loops go round, exception handlers and ``with`` blocks that surround the point
stay in force, and name, file and lines are those the user wrote.

This module knows bytecode.  It must not know why the function was interrupted nor where the values come from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import CodeType
from typing import Protocol

from capture.bytecode.assembler import OffsetOf, assemble
from capture.bytecode.emitter import Emitter
from capture.bytecode.flow import Flow
from capture.bytecode.instructions import Body, Instruction, slot_names
from capture.bytecode.versions import OPERANDS, Operand
from capture.errors import CaptureError

NOWHERE = -1
"""The place of an instruction that puts the frame into its state."""


class NotResumable(CaptureError):
    """Raised for a frame that cannot be continued by a function of its own."""


class Slot(Enum):
    """The kinds of places on the interrupted stack, by what each holds and whether that is handed over."""

    VALUE = auto()  # an object, handed over as it is; iterators and bound __exit__ methods are just that
    NULL = auto()  # no object: the mark beside a callable, or a variable that was unbound when saved
    HANDLED = auto()  # left by PUSH_EXC_INFO.  Hand over the exception being handled (what PUSH_EXC_INFO found on top)
    LASTI = auto()  # pushed on entry to a handler with `lasti`; made anew


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a code object at which a frame stands, just before an instruction.

    `index` counts instructions as ``Body.from_code`` lists them; `stack` goes from bottom to top; `bound` are the
    local and cell variables that have a value (a cell: that has been made, empty or not), named as in operands.
    Those that nothing reads any more are let go, except those `with_finalizers`: what they hold may do something when
    it is freed.
    """

    index: int
    stack: tuple[Slot, ...]
    bound: frozenset[str]
    with_finalizers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Continuation:
    """The code and what to call it with, all positional: an int is a place on the stack, a str a variable.

    For a variable that is a cell, hand over the cell itself.  Free variables are those of the original, in
    its order: the closure can be passed on as it is.  `kept` are the original's instructions that are left, by index;
    they come last in the code, in this order.
    """

    code: CodeType
    parameters: tuple[int | str, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """A code object that the user wrote, and where a frame of it or of a continuation stands in it."""

    code: CodeType
    flow: Flow
    place: Callable[[int], int]
    is_continuation: bool
    with_finalizers: frozenset[str] = frozenset()


class Continuations:
    """Makes continuations, each only once, so that what is compiled for one is found again.

    What is left of a continuation is what is left of the original: a loop that stops in each of its rounds is one
    continuation that leads to itself.
    """

    def __init__(self) -> None:
        # By identity: code objects are equal even if they come from different files.  Every code is kept, so that its
        # id stays its own.
        self._made: dict[tuple[int, Point], Continuation] = {}
        self._flows: dict[int, tuple[CodeType, Flow]] = {}
        self._parents: dict[int, tuple[CodeType, Point, Continuation]] = {}

    def original(self, code: CodeType) -> Original:
        """The code that this one is, or continues."""
        parent = self._parents.get(id(code))
        if parent is None:
            return Original(code, self._flow(code), lambda index: index, is_continuation=False)
        root, point, made = parent
        start = len(Body.from_code(code)) - len(made.kept)
        return Original(
            root,
            self._flow(root),
            lambda index: made.kept[index - start] if index >= start else NOWHERE,
            is_continuation=True,
            with_finalizers=point.with_finalizers,
        )

    def __call__(self, code: CodeType, point: Point) -> Continuation:
        """The rest of an original after a point in it."""
        flow = self._flow(code)
        bound = frozenset(_variables(code, flow, point))  # a dead variable must not make it another point
        with_finalizers = bound & point.with_finalizers - flow.live().before(point.index)
        key = (id(code), Point(point.index, point.stack, bound, with_finalizers))
        if key not in self._made:
            made = self._made[key] = _continuation(code, flow, key[1])
            self._parents[id(made.code)] = code, key[1], made
        return self._made[key]

    def raising(self, code: CodeType, error: BaseException) -> CodeType | None:
        """Code that raises where a continuation stands, for the handlers there; None for code that is no
        continuation."""
        parent = self._parents.get(id(code))
        return None if parent is None else _continuation(parent[0], self._flow(parent[0]), parent[1], error).code

    def point_of(self, code: CodeType) -> Point | None:
        """The point in its original at which a continuation begins; None for code that is none."""
        parent = self._parents.get(id(code))
        return None if parent is None else parent[1]

    def in_cpython(self, code: CodeType, section: Callable[[CodeType, Flow, Point], Section]) -> CodeType:
        """Code that takes the arguments of a continuation, and does the same up to where `section` ends."""
        root, point, _ = self._parents[id(code)]
        flow = self._flow(root)
        return _continuation(root, flow, point, section=section(root, flow, point)).code

    def _flow(self, code: CodeType) -> Flow:
        if id(code) not in self._flows:
            self._flows[id(code)] = code, Flow(Body.from_code(code))
        return self._flows[id(code)][1]


def continuation(code: CodeType, point: Point) -> Continuation:
    """The rest of `code` after `point`."""
    return _continuation(code, Flow(Body.from_code(code)), point)


class Section(Protocol):
    """A part of a function that runs before it is left for continuations, and the instruction to enter it at."""

    rest: list[Instruction]
    target: Instruction


def _continuation(
    code: CodeType, flow: Flow, point: Point, error: BaseException | None = None, section: Section | None = None
) -> Continuation:
    """Assembles the prologue that puts the parameters in place, and behind it the instructions that are left.

    `error` is raised at the point instead of going on there; `section` takes the place of the rest.
    """
    body = flow.instructions
    target = body[point.index] if section is None else section.target
    _check(code, flow, point)
    # Only what can still run is kept: names, constants and handlers of the rest go with it.
    reachable = flow.reachable(point.index)
    left = [instruction for instruction, keep in zip(body, reachable, strict=True) if keep]
    rest = left if section is None else section.rest
    variables = _variables(code, flow, point)
    cells = _cells(code, _used_variables(rest).union(variables))
    stack = _stack_parameters(point, rest)
    emit = Emitter(target.positions)
    _restore_cells(emit, [name for name in variables if name in cells])
    _restore_stack(emit, point, stack, target)
    # From here on things are where the handlers expect them, in time for RESUME, which is where signals are taken.
    emit.handler = target.handler
    emit.emit("RESUME", 0)
    if error is not None:
        emit.load_const(error)
        emit.emit("RAISE_VARARGS", 1)
    # The rest keeps its order, in which a loop's head stands above the point: then the point has to be jumped to.
    if rest[0] is not target:
        emit.jump(target)
    emit.append(rest)
    return Continuation(
        code=assemble(
            emit.body(),
            code,
            co_argcount=len(variables) + len(stack),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            # All parameters are positional: whatever the original collected in *args and **kwargs is an object in a
            # variable now.
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
            co_varnames=tuple(name.removesuffix("'") for name in [*variables, *stack.values()]),
            co_cellvars=tuple(name.removesuffix("'") for name in cells),
        ),
        parameters=(*variables, *stack),
        kept=tuple(index for index, keep in enumerate(reachable) if keep),
    )


def _check(code: CodeType, flow: Flow, point: Point) -> None:
    """Raises `NotResumable` for a frame that no function of its own can continue."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise NotResumable(f"{code.co_qualname} is a generator or coroutine: its frame outlives a call")
    for instruction in flow.instructions:
        if instruction.op == "MAKE_CELL" and instruction.arg in code.co_freevars:
            # Some releases compile this where an inlined comprehension has a cell by the name of a free variable.
            raise NotResumable(
                f"{code.co_qualname}: the free variable {instruction.arg!r} gets another cell on the way"
            )
    # The caller counted the stack by evaluating, the flow by reading: if they disagree, one of them is wrong about
    # it.
    depth = flow.depths[point.index]
    if depth != len(point.stack):
        target = flow.instructions[point.index]
        raise NotResumable(
            f"{code.co_qualname}, line {target.line}: the stack has {depth} places before {target.op}, "
            f"not {len(point.stack)}"
        )


# ---------------------------------------------------------------------------------------------------------- parameters


def reads_frames(code: CodeType) -> bool:
    """True if the code may look at its frame, so that all variables are kept, also those that no instruction reads."""
    return not _FRAME_READERS.isdisjoint(code.co_names)


def _variables(code: CodeType, flow: Flow, point: Point) -> list[str]:
    """The variables to hand over, in slot order: what may be read, or all where the code can look at its frame."""
    slots = _own_slots(code)
    if reads_frames(code):
        wanted = point.bound
    else:
        wanted = (flow.live().before(point.index) | point.with_finalizers) & point.bound
    if "__class__" in code.co_freevars and code.co_argcount:
        # super() without arguments takes the first argument from the frame, so it has to come first again.
        if slots[0] not in point.bound:
            raise NotResumable(f"{code.co_qualname}: super() needs the argument {slots[0]!r}, which was deleted")
        wanted |= {slots[0]}
    return [name for name in slots if name in wanted]


def _own_slots(code: CodeType) -> list[str]:
    """The names of the local and cell variables, free ones excepted."""
    slots = slot_names(code.co_varnames, code.co_cellvars, code.co_freevars)
    return slots[: len(slots) - len(code.co_freevars)]


def _cells(code: CodeType, used: set[str]) -> list[str]:
    """The `used` variables that are cells of the code's own."""
    return [name for name in _own_slots(code) if name in used and name.removesuffix("'") in code.co_cellvars]


def _used_variables(instructions: Iterable[Instruction]) -> set[str]:
    return {instruction.arg for instruction in instructions if OPERANDS.get(instruction.op) is Operand.SLOT}


def _stack_parameters(point: Point, rest: Iterable[Instruction]) -> dict[int, str]:
    """Names for the places of the stack that are handed over."""
    taken = _used_variables(rest)
    names = {}
    for place, slot in enumerate(point.stack):
        if slot in (Slot.VALUE, Slot.HANDLED):
            name = f".stack{place}"
            while name in taken:  # this code is a continuation itself
                name = "." + name
            names[place] = name
    return names


# What reads local variables by other means than instructions: a debugger should show them all, and what is at an
# address has to stay there.
_FRAME_READERS = frozenset(
    {"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe", "breakpoint", "set_trace"}
    | {"data_ptr", "const_data_ptr", "mutable_data_ptr", "__array_interface__", "__cuda_array_interface__"}
)


# ------------------------------------------------------------------------------------------------------------ prologue


def _restore_cells(emit: Emitter, cells: Iterable[str]) -> None:
    """The parameter is the cell itself, and has to become the cell *of* that variable.

    MAKE_CELL wraps the cell in another one, which is taken off again.  It looks roundabout, but only a variable for
    which MAKE_CELL has run is one that ``locals()``, ``super()`` and debuggers look into.
    """
    for name in cells:
        emit.emit("MAKE_CELL", name)
        emit.load_deref(name)
        emit.store_fast(name)


def _restore_stack(emit: Emitter, point: Point, names: Mapping[int, str], target: Instruction) -> None:
    """Moves the parameters to the stack, so that nothing but the stack keeps them alive."""
    for place, slot in enumerate(point.stack):
        match slot:
            case Slot.VALUE:
                emit.move_fast(names[place])
            case Slot.NULL:
                emit.push_null()
            case Slot.HANDLED:
                emit.move_fast(names[place])
                emit.emit("PUSH_EXC_INFO")  # leaves the exception handled before, for POP_EXCEPT, under this one
                emit.pop()
            case Slot.LASTI:
                emit.load_const(OffsetOf(target))
