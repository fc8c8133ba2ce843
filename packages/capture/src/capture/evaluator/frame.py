"""The state of one frame under evaluation: its place, its stack, its variables.

State only; no behaviour of opcodes.
"""

from __future__ import annotations

from types import CodeType

from capture.bytecode.instructions import Instruction
from capture.errors import Location
from capture.values.base import Tracer, Value, realize, settled
from capture.values.constant import UNBOUND
from capture.values.function import CellValue, FunctionValue
from capture.values.mapping import DictValue


class NullValue(Value):
    """The NULL that calls push beside a plain callable."""

    def python_type(self) -> type:
        return type(None)

    def __repr__(self) -> str:
        return "<NULL>"


NULL = NullValue()


class Frame:
    """``slots`` holds locals, cells and free variables under one name each; a cell variable's slot holds the cell.
    ``names`` is the namespace of a class body.
    """

    def __init__(
        self,
        tracer: Tracer,
        function: FunctionValue,
        instructions: list[Instruction],
        slots: dict[str, Value],
        names: DictValue | None = None,
    ) -> None:
        self.tracer = tracer
        self.function = function
        self.code = function.code
        self.instructions = instructions
        self.slots = slots
        self.stack: list[Value] = []
        self.pc = 0
        # The instruction under evaluation; ``pc`` is that of the next one.
        self.current: Instruction = instructions[0]
        # The exceptions that are being handled, the innermost last.
        self.handling: list[Value] = []
        self.generator: Value | None = None
        self.names = names
        # How the last step left the frame: with a result, at a suspension, or with neither.
        self.returned: Value | None = None
        self.yielded: Value | None = None
        self.is_given_suspended = False
        """True if generators are among its arguments, to which the evaluation of its call refers as well."""
        self.takes_its_arguments = False
        """True if, in CPython, nobody else refers to them on account of the call."""
        self.calling: CodeType | None = None
        """The function of Python's that it calls by itself."""

    def reads_variables(self) -> bool:
        """True if its code, or code within, reads the variables of a frame, be it its own or its caller's."""
        return _names_variables(self.code)

    # -- the stack -----------------------------------------------------------------------------------------------

    def push(self, value: Value) -> None:
        self.stack.append(value)

    def pop(self) -> Value:
        """The top, looked at."""
        return realize(self.tracer, self.stack.pop())

    def pop_unseen(self) -> Value:
        """The top, for moving it elsewhere: it may stay lazy."""
        return self.stack.pop()

    def popn(self, count: int) -> list[Value]:
        """The topmost values in the order in which they were pushed; they may stay lazy."""
        if count == 0:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    # -- control -------------------------------------------------------------------------------------------------

    def jump(self, target: Instruction) -> None:
        self.pc = target.index

    # -- variables -----------------------------------------------------------------------------------------------

    def cell(self, name: str) -> CellValue:
        """The cell of a variable; the slot holds the value itself from now on."""
        cell = self.slots[name] = realize(self.tracer, self.slots[name])
        assert isinstance(cell, CellValue)
        return cell

    def load(self, name: str) -> Value | None:
        """The value of a variable; None where it is unbound."""
        value = self.slots.get(name, UNBOUND)
        return None if value is UNBOUND else value

    def location(self) -> Location:
        return Location(self.code.co_filename, self.current.line or self.code.co_firstlineno, self.code.co_qualname)

    def forget(self) -> None:
        """Let go of its variables, as when it ends."""
        self.stack.clear()
        self.slots.clear()

    def let_go(self) -> None:
        """Forget the program's objects, and who waits for this frame."""
        for value in [*self.stack, *self.slots.values()]:
            settled(value).let_go()
        for kept in (self.stack, self.slots, self.handling):
            kept.clear()
        self.generator = self.names = self.returned = self.yielded = None


def _names_variables(code: CodeType) -> bool:
    """True if ``f_locals`` is among the names in the code, or in functions defined in it."""
    within = (each for each in code.co_consts if isinstance(each, CodeType))
    return "f_locals" in code.co_names or any(map(_names_variables, within))
