"""Writing instructions without knowing which interpreter will run them.

An `Emitter` appends neutral instructions to a list.  Each takes the source position of the user's instruction it was
written for, so a traceback through written code points at the user's line.  This module knows nothing of
values, graphs or guards: what to load is somebody else's decision.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from capture._engine import Uninterrupted
from capture.bytecode.codetables import NO_POSITIONS, Positions
from capture.bytecode.instructions import Body, Handler, Instruction
from capture.bytecode.versions import NULL_UNDER_CALLABLE, PY312, PY313


class Emitter:
    """Appends instructions.

    A call is written as: the callable, the arguments, the call::

        emit.load_callable(function)        # or: push any object, then emit.to_callable()
        emit.load_fast("x")
        emit.call(1)

    A jump goes to a label, which is placed once, before or after the jump::

        done = emit.label()
        emit.jump_if_none(done)
        ...
        emit.place(done)
    """

    def __init__(self, positions: Positions = NO_POSITIONS) -> None:
        self.instructions: list[Instruction] = []
        self.positions = positions
        self.handler: Handler | None = None

    def body(self) -> Body:
        return Body(self.instructions)

    # ------------------------------------------------------------------------------------------------------- generality

    def emit(self, op: str, arg: Any = None) -> Instruction:
        instruction = Instruction(op, arg, self.positions, self.handler)
        self.instructions.append(instruction)
        return instruction

    def at(self, instruction: Instruction) -> None:
        """Attributes what is emitted from here on to this instruction of the user's: it gives the source positions."""
        self.positions = instruction.positions

    def append(self, instructions: Iterable[Instruction]) -> None:
        """Takes over instructions as they are: jumps among them stay valid."""
        self.instructions.extend(instructions)

    @contextmanager
    def handled_by(self, target: Instruction, depth: int, *, lasti: bool = False) -> Iterator[None]:
        """Exceptions raised by what is written inside go to `target`, with the stack cut to `depth`."""
        outer, self.handler = self.handler, Handler(target, depth, lasti)
        try:
            yield
        finally:
            self.handler = outer

    def put_back_handled(self, target: Instruction) -> None:
        """Writes the `target` of errors raised behind a PUSH_EXC_INFO at the bottom of the stack.

        The exception that was being handled before is handled again, and the error raised once more.
        """
        self.place(target)
        self.copy(3)
        self.emit("POP_EXCEPT")
        self.emit("RERAISE", 1)

    def prologue(self, cells: Iterable[str] = ()) -> None:
        """The beginning of a function: turn these variables into cells, and say that it starts."""
        for name in cells:
            self.emit("MAKE_CELL", name)
        self.emit("RESUME", 0)

    # -------------------------------------------------------------------------------------------------------- variables

    def load_const(self, value: object) -> None:
        """Pushes a constant of any kind.

        A text that is not interned, or something unhashable, travels as an attribute of a `Constant`: a code object
        would put an equal, interned text in its place, and tools that hash code objects would fail on the other.
        """
        if (type(value) is str and sys.intern(value) is not value) or not _is_hashable(value):
            self.emit("LOAD_CONST", Constant(value))
            self.load_attr("value")
        else:
            self.emit("LOAD_CONST", value)

    def load_fast(self, name: str, *, may_be_unbound: bool = False) -> None:
        self.emit("LOAD_FAST_CHECK" if may_be_unbound and PY312 else "LOAD_FAST", name)

    def store_fast(self, name: str) -> None:
        self.emit("STORE_FAST", name)

    def delete_fast(self, name: str) -> None:
        self.emit("DELETE_FAST", name)

    def move_fast(self, name: str) -> None:
        """Pushes a bound local variable and unbinds it."""
        if PY312:
            self.emit("LOAD_FAST_AND_CLEAR", name)
        else:
            self.emit("LOAD_FAST", name)
            self.emit("DELETE_FAST", name)

    def load_cell(self, name: str) -> None:
        """The cell itself, of a cell or free variable."""
        self.emit("LOAD_CLOSURE", name)

    def load_deref(self, name: str) -> None:
        self.emit("LOAD_DEREF", name)

    def store_deref(self, name: str) -> None:
        self.emit("STORE_DEREF", name)

    def load_global(self, name: str) -> None:
        self.emit("LOAD_GLOBAL", name)

    def load_attr(self, name: str) -> None:
        self.emit("LOAD_ATTR", name)

    def store_attr(self, name: str) -> None:
        """[value, object] -> []"""
        self.emit("STORE_ATTR", name)

    def delete_attr(self, name: str) -> None:
        self.emit("DELETE_ATTR", name)

    # ------------------------------------------------------------------------------------------------------------ stack

    def pop(self, count: int = 1) -> None:
        for _ in range(count):
            self.emit("POP_TOP")

    def copy(self, depth: int = 1) -> None:
        """Pushes the value at `depth` once more; the top is 1."""
        self.emit("COPY", depth)

    def swap(self, depth: int) -> None:
        """Exchanges the top with the value at `depth`."""
        self.emit("SWAP", depth)

    def sink(self, depth: int) -> None:
        """Moves the top down to `depth`; those in between come up by one."""
        for place in range(depth, 1, -1):
            self.emit("SWAP", place)

    def push_null(self) -> None:
        self.emit("PUSH_NULL")

    # ------------------------------------------------------------------------------------------------------------ calls

    def load_callable(self, function: object) -> None:
        """Pushes a constant, ready to be called."""
        if NULL_UNDER_CALLABLE:
            self.push_null()
            self.load_const(function)
        else:
            self.load_const(function)
            self.push_null()

    def to_callable(self) -> None:
        """Makes the object on top ready to be called."""
        self.push_null()
        if NULL_UNDER_CALLABLE:
            self.swap(2)

    def call(self, count: int) -> None:
        self.emit("CALL", count)

    def load_uninterrupted(self, function: Callable[..., object] | Uninterrupted) -> None:
        """Pushes a function of C, to be called by ``call_uninterrupted``."""
        self.load_const(function if isinstance(function, Uninterrupted) else _uninterrupted(function))

    def call_uninterrupted(self, count: int) -> None:
        """A call after which no other thread runs before the next instruction."""
        self.build_tuple(count)
        self.binary_subscr()

    def call_kw(self, count: int, names: Sequence[str]) -> None:
        """A call with `count` arguments on the stack, of which the last ones are keyword arguments with these names."""
        if names:
            self.emit("CALL_KW", (count, tuple(names)))
        else:
            self.call(count)

    def call_ex(self, *, mapping: bool = False) -> None:
        """[callable, arguments as a tuple, keywords as a dict if `mapping`] -> [result]"""
        self.emit("CALL_FUNCTION_EX", int(mapping))

    def make_function(self, code: CodeType, *, closure: bool = False) -> None:
        """Pushes a function over the globals of the running frame; with `closure`, the tuple of its cells is on top."""
        self.load_const(code)
        self.emit("MAKE_FUNCTION", 8 if closure else 0)

    def build_closure(self, names: Sequence[str]) -> None:
        """Pushes the tuple of the cells of these variables."""
        for name in names:
            self.load_cell(name)
        self.build_tuple(len(names))

    # ------------------------------------------------------------------------------------------- containers, operators

    def build_tuple(self, count: int) -> None:
        self.emit("BUILD_TUPLE", count)

    def build_list(self, count: int) -> None:
        self.emit("BUILD_LIST", count)

    def build_set(self, count: int) -> None:
        self.emit("BUILD_SET", count)

    def build_map(self, pairs: int) -> None:
        """[key, value, key, value, ...] -> [dict]"""
        self.emit("BUILD_MAP", pairs)

    def build_slice(self, count: int) -> None:
        self.emit("BUILD_SLICE", count)

    def list_extend(self, depth: int = 1) -> None:
        """Pops an iterable and extends with it the list that is then at `depth`."""
        self.emit("LIST_EXTEND", depth)

    def unpack_sequence(self, count: int) -> None:
        """[sequence] -> its `count` items, the first on top."""
        self.emit("UNPACK_SEQUENCE", count)

    def binary_subscr(self) -> None:
        """[container, key] -> [item]"""
        self.emit("BINARY_SUBSCR")

    def store_subscr(self) -> None:
        """[value, container, key] -> []"""
        self.emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        """[container, key] -> []"""
        self.emit("DELETE_SUBSCR")

    def binary_op(self, symbol: str) -> None:
        self.emit("BINARY_OP", symbol)

    def compare(self, symbol: str) -> None:
        """One of < <= == != > >=, or is, is not, in, not in."""
        op = "IS_OP" if symbol.startswith("is") else "CONTAINS_OP" if symbol.endswith("in") else "COMPARE_OP"
        self.emit(op, symbol)

    # ---------------------------------------------------------------------------------------------------------- control

    def label(self) -> Instruction:
        return Instruction("NOP", None, self.positions, self.handler)

    def place(self, label: Instruction) -> None:
        """Puts a label here: it takes the positions and the handler in force here, not those where it was made."""
        label.positions, label.handler = self.positions, self.handler
        self.instructions.append(label)

    def jump(self, target: Instruction) -> None:
        self.emit("JUMP", target)

    def jump_if_true(self, target: Instruction) -> None:
        self._jump_on_truth("POP_JUMP_IF_TRUE", target)

    def jump_if_false(self, target: Instruction) -> None:
        self._jump_on_truth("POP_JUMP_IF_FALSE", target)

    def _jump_on_truth(self, op: str, target: Instruction) -> None:
        # 3.13 jumps on bools only and no longer asks for an object's truth in the jump itself.
        if PY313:
            self.emit("TO_BOOL")
        self.emit(op, target)

    def jump_if_none(self, target: Instruction) -> None:
        self.emit("POP_JUMP_IF_NONE", target)

    def get_iter(self) -> None:
        self.emit("GET_ITER")

    def for_iter(self, exhausted: Instruction) -> None:
        """Pushes the next item of the iterator on top, or pops the iterator and goes to `exhausted`, further down."""
        self.emit("FOR_ITER", exhausted)

    def return_value(self) -> None:
        self.emit("RETURN_VALUE")

    def raise_value(self) -> None:
        """Raises the exception on top."""
        self.emit("RAISE_VARARGS", 1)


@functools.cache
def _uninterrupted(function: Callable[..., object]) -> Uninterrupted:
    return Uninterrupted(function)


class Constant:
    """A hashable holder of a constant, for constants that a code object would replace or could not hash."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def _is_hashable(value: object) -> bool:
    """True if the type says that it can be hashed; no `__hash__` of the program's is called to find out."""
    return all(map(_is_hashable, value)) if type(value) is tuple else type(value).__hash__ is not None
