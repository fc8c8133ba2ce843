"""The question whether a call is an equal one: all that a tape met in one module has to be in the other one, too.

Paths are followed and objects compared; nothing is evaluated or recorded.
Must not know: machines, how tapes are taken, what is done for an equal call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from capture.evaluator.equal_calls.facts import holds, of_fake, same_constant
from capture.evaluator.equal_calls.paths import MISSING, Paths, Refused
from capture.evaluator.equal_calls.tape_recorder import fact_of_object, of_known
from capture.evaluator.equal_calls.tapes import Guarded, Known, Same, Tape, Wrapped
from capture.guards.sources import Source
from capture.recording.graph import memory_of
from capture.torch_versions import cdata_of
from capture.values.constant import ConstantValue
from capture.values.identity import MetObjects
from capture.values.module import ModuleValue
from capture.values.tensor import TensorValue


class SeenObjects:
    """The objects that an evaluation has met, with the memories of tensors among them."""

    def __init__(self, met: MetObjects) -> None:
        self.find = met.find
        self._memories: set[int] = set()
        self._shared: set[int] = set()  # of several tensors

    def add_memory(self, tensor: torch.Tensor) -> bool:
        """Notes the memory of a tensor that was not met before; True if there is another one over it."""
        memory = memory_at(tensor)
        shared = memory in self._memories
        if shared:
            self._shared.add(memory)
        self._memories.add(memory)
        return shared

    def has_memory(self, memory: int) -> bool:
        return memory in self._memories

    def shares_memory(self, value: TensorValue) -> bool:
        """True if another tensor that was met lies in this one's memory."""
        return memory_at(value.obj) in self._shared

    def has_tables_of(self, obj: torch.nn.Module) -> bool:
        """True if evaluated code has looked at a table of the module, whose items a change would then have to show."""
        held = object.__getattribute__(obj, "__dict__")
        tables = (held, *(held.get(name) for name in ("_parameters", "_buffers", "_modules")))
        return any(table is not None and self.find(table) is not None for table in tables)


class Fitting:
    """The comparison of what a tape met with what is in another call's module."""

    def __init__(self, objects: SeenObjects, is_dynamic_float: Callable[[Source], bool]) -> None:
        self._objects, self._is_dynamic_float = objects, is_dynamic_float

    def paths(self, known: Tape, tape: Tape) -> Paths | None:
        """The paths to all that a tape met in the module of another call; None where that is not an equal one.

        The other call's own tape has the root of its module again, and nothing else.
        """
        if known.state != tape.state or known.given != tape.given:
            return None
        paths = tape.paths
        try:
            # A tensor from elsewhere that was written to since.
            if any(of_fake(tensor.fake) != fact for tensor, fact in known.outside.values()):
                return None
            for step in known.paths.steps:
                paths.follow(step)
            return paths if self._events_fit(known, tape, paths) else None
        except (Refused, AttributeError, TypeError):
            return None
        finally:
            tape.paths = Paths(paths.sources[0], paths.objects[0])

    def _events_fit(self, known: Tape, tape: Tape, paths: Paths) -> bool:
        """True if the objects of the other module are such as the tape met, and its guards hold for them."""
        objects: dict[int, object] = {}  # by slot
        memories: set[int] = set()
        for event in known.events:
            if isinstance(event, Guarded):
                if not holds(event.kind, event.payload, paths.objects[event.path]):
                    return False
            elif isinstance(event, Wrapped):
                obj = paths.objects[event.path]
                if event.slot in objects and objects[event.slot] is not obj:
                    return False
                first = event.slot not in objects
                objects[event.slot] = obj
                varies = type(obj) is float and self._is_dynamic_float(paths.sources[event.path])
                if varies or (first and not self._is_such(obj, event, memories, objects)):
                    return False
                if isinstance(event.fact, tuple) and event.fact[0] is Known and not self._is_apart(obj, known, tape):
                    return False
        return True

    def _is_apart(self, obj: object, known: Tape, tape: Tape) -> bool:
        """True if a tensor that was met before is not one that the call has besides."""
        value = self._objects.find(obj)
        assert isinstance(value, TensorValue)
        others = id(value) in known.outside or id(value) in tape.slots.numbers or self._objects.shares_memory(value)
        return not others and memory_of(value.fake) not in tape.given_memories

    def _is_such(self, obj: Any, event: Wrapped, memories: set[int], objects: dict[int, object]) -> bool:
        """True if an object is what the tape met in its place, and as new, or as known, as that was."""
        if obj is MISSING:
            return False
        # Met before, outside of the module: it has to be the very object.
        if isinstance(event.fact, Same):
            return self._objects.find(obj) is event.fact.held
        assert isinstance(event.fact, tuple)
        kind, *fact = event.fact
        if kind is ConstantValue:
            return same_constant(obj, fact[2].held)
        if kind is Known:
            value = self._objects.find(obj)
            alone = sum(each is obj for each in objects.values()) == 1
            return alone and type(value) is TensorValue and of_known(value) == event.fact
        # New to the tape's call, so it has to be new to this one: else a tied weight would pass for two.
        if self._objects.find(obj) is not None or sum(each is obj for each in objects.values()) > 1:
            return False
        if kind is TensorValue:
            memory = memory_at(obj)
            if self._objects.has_memory(memory) or memory in memories:
                return False
            memories.add(memory)
            return fact_of_object(obj, kind) == (fact[0],)
        if kind is ModuleValue and self._objects.has_tables_of(obj):
            return False
        return fact_of_object(obj, kind) == tuple(fact)


def memory_at(tensor: torch.Tensor) -> int:
    """The number of a real tensor's memory; 0 where it has none."""
    try:
        return int(cdata_of(tensor.untyped_storage()))
    except (NotImplementedError, RuntimeError):
        return 0
