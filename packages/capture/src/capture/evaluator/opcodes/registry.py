"""The table of opcode handlers, filled by a decorator: one small function per neutral opcode."""

from __future__ import annotations

from collections.abc import Callable

from capture.bytecode.instructions import Instruction
from capture.evaluator.frame import Frame
from capture.evaluator.world import World

Handler = Callable[[World, Frame, Instruction], None]
HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler; an opcode has exactly one."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"two handlers for {name}: {HANDLERS[name].__name__} and {handler.__name__}")
            HANDLERS[name] = handler
        return handler

    return register
