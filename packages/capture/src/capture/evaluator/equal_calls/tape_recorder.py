"""Records a tape: the events of one call under evaluation, as long as nothing happens that a tape cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from capture.errors import Location
from capture.evaluator.equal_calls.facts import holds, of_fake, of_input, of_writes
from capture.evaluator.equal_calls.paths import PLAIN_DICTS, Refused
from capture.evaluator.equal_calls.recipes import Recipe
from capture.evaluator.equal_calls.tapes import Guarded, Known, Recorded, Same, Shape, Tape, Wrapped, shape_of
from capture.guards.kinds import GuardKind
from capture.guards.sources import Source
from capture.recording.graph import memory_of
from capture.values.base import LazyValue, Value, settled
from capture.values.classes import ClassValue, PythonModuleValue
from capture.values.constant import ConstantValue
from capture.values.function import BuiltinValue, FunctionValue
from capture.values.mapping import DictValue
from capture.values.module import ModuleValue
from capture.values.sequence import OutsideList, TupleValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject

_MOST_LOOKED_AT = 2000
_CODE = (FunctionValue, ClassValue, BuiltinValue, PythonModuleValue)


def leads_to(values: Iterable[Value], tape: Tape) -> bool:
    """True if one of these, or what is known of what it refers to, belongs to the module that is called.

    The tensors among them are from outside of the call, and what they are now is noted.
    """
    seen: set[int] = set()
    todo = [settled(value) for value in values]
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        # Too much to look at: it is taken to lead to the module.
        if len(seen) > _MOST_LOOKED_AT or id(value) in tape.slots.numbers:
            return True
        if value.source is not None and tape.paths.number(value.source) is not None:
            return True
        if isinstance(value, TensorValue) and value.source is not None and id(value) not in tape.outside:
            tape.outside[id(value)] = value, of_fake(value.fake)
        if not isinstance(value, LazyValue):
            todo.extend(settled(part) for part in _referred(value))
    return False


def _referred(value: Value) -> list[Value]:
    """The values that this one refers to, as far as they are known."""
    if isinstance(value, FunctionValue):
        named = value.keyword_defaults.values()
        return [*(getattr(cell, "content", cell) for cell in value.closure), *value.defaults, *named]
    if isinstance(value, OutsideList) and "items" not in vars(value):
        return []  # nobody has looked into it
    return list(value.parts())


def fact_of(obj: object, value: Value) -> object:
    """The facts about a real object below the module that its value takes for granted."""
    kind = type(value)
    if kind is ConstantValue:
        assert isinstance(value, ConstantValue)
        return ConstantValue, type(value.value), repr(value.value), Same(value.value)
    if kind is TensorValue:
        assert isinstance(value, TensorValue)
        return TensorValue, of_input(value.obj), of_fake(value.fake)
    return kind, *fact_of_object(obj, kind)


def of_known(value: TensorValue) -> tuple[object, ...]:
    """The facts about a tensor that was met before."""
    return Known, of_input(value.obj), of_fake(value.fake), of_writes(value.written), value.is_a_gradient


def fact_of_object(obj: Any, kind: type) -> tuple[object, ...]:
    """The facts that are known of an object before it has a value."""
    if kind is TensorValue:
        return (of_input(obj),)
    # No fact but its class: what evaluation asks of it comes as guards on its paths.
    if kind is ModuleValue:
        held = object.__getattribute__(obj, "__dict__")
        if not all(type(name) is str for name in held):
            raise Refused
        return (type(obj),)
    if kind is UserObject and type(obj).__dictoffset__ and not isinstance(obj, (BaseException, torch.Tensor)):
        return (type(obj),)
    if kind is OutsideList and type(obj) is list:
        return (list,)
    if kind is TupleValue and type(obj) is tuple:
        return tuple, len(obj)
    if kind is DictValue and type(obj) in PLAIN_DICTS and all(type(key) is str for key in obj):
        if getattr(obj, "__dict__", None):
            raise Refused
        return type(obj), tuple(obj)
    raise Refused


class TapeRecorder:
    """A tape as it is being taken; ``depth`` is the number of frames at the call."""

    def __init__(self, tape: Tape, depth: int, shares_memory: Callable[[TensorValue], bool]) -> None:
        self.tape = tape
        self.shares_memory = shares_memory
        self.depth = depth
        self.refused = ""
        self.added = 0  # nodes of the graph that are accounted for
        self.outside = 0  # guards on other paths that were new
        self._guarded: set[tuple[object, ...]] = set()
        self._nodes: list[tuple[torch.fx.Node, int]] = []

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why

    def wrapped(self, obj: object, source: Source, value: Value, known: Value | None) -> None:
        """Notes that an object was met on a path."""
        paths, slots = self.tape.paths, self.tape.slots
        number = paths.number(source)
        # On a path outside of the module: harmless where it is the same for every call.
        if number is None:
            # Met before the call, or fixed: then the next call finds the same.
            fixed = known is not None or isinstance(value, (ConstantValue, *_CODE))
            self._insist(fixed and not leads_to([value], self.tape), f"{source.expression()} is met")
            return
        self._insist(number != 0, "the module itself is met")
        slot, fact = slots.of(value), None
        if slot is None:
            if known is None:
                fact = fact_of(obj, value)
            elif type(value) is TensorValue and self._is_of_the_module(value, number):
                fact = of_known(value)
            else:
                self._insist(not leads_to([value], self.tape), f"{source.expression()} was met before")
                fact = Same(value)
            slot = slots.add(value)
        self.tape.events.append(Wrapped(number, slot, known is not None, fact))

    def _is_of_the_module(self, value: TensorValue, number: int) -> bool:
        """True for a parameter of the module that its optimizer was asked for before: that matters to no call."""
        if value.source is None or id(value) in self.tape.outside or self.shares_memory(value):
            return False
        return memory_of(value.fake) not in self.tape.given_memories and self.tape.paths.lead_to(value.source, number)

    def guarded(
        self,
        source: Source | None,
        kind: GuardKind,
        payload: tuple[Any, ...],
        text: str,
        place: Location | None,
        new: bool,
    ) -> None:
        """Notes that something was relied on."""
        self._insist(source is not None, "several paths are related")
        assert source is not None
        number = self.tape.paths.number(source)
        if number is None:
            self.outside += new
            return
        self._insist(holds(kind, payload, self.tape.paths.objects[number]), f"{source.expression()} is no such object")
        # A guard that is asked twice is one event, as the set of guards has it once.
        key = number, kind, repr(payload)
        if key not in self._guarded:
            self._guarded.add(key)
            self.tape.events.append(Guarded(number, kind, payload, text, place))

    def operands(self, args: Sequence[Value], kwargs: Mapping[str, Value]) -> tuple[Any, Any]:
        """The operands of an operation as shapes, from before it may write to them."""
        slots = self.tape.slots
        return tuple(shape_of(value, slots) for value in args), tuple(
            (name, shape_of(value, slots)) for name, value in kwargs.items()
        )

    def recorded(
        self,
        target: Any,
        method: bool,
        operands: tuple[Any, Any],
        result: Value,
        place: Location | None,
        recipe: Recipe | None,
    ) -> None:
        """Notes that an operation was recorded."""
        facts: list[object] = []
        first = len(self.tape.slots.values)
        shape = shape_of(result, self.tape.slots, facts)
        made = self.tape.slots.values[first:]
        self._nodes += [(value.node, len(value.node.meta)) for value in made if isinstance(value, TensorValue)]
        self.tape.events.append(Recorded(target, method, *operands, shape, tuple(facts), place, recipe))

    def finish(self, result: Value) -> None:
        """Ends the tape with what the call gave, and refuses it where that cannot be told."""
        # A remark that a later step makes about a node would not be made when the node is put in again.
        if any(len(node.meta) != count for node, count in self._nodes):
            self.refuse("something was said of a node afterwards")
        try:
            self.tape.result = shape_of(result, self.tape.slots)
        except Refused:
            self.refuse("of what it gives")
        if not self.refused and _has_lazy(self.tape.events, self.tape.result):
            self.refuse("something stays unseen")
        # Looked at once more before the tape is used: they may have been written to.
        for value, fact in _tensors_of_others(self.tape.events):
            self.tape.outside.setdefault(id(value), (value, fact))
        if any(id(value) in self.tape.outside for value in self.tape.slots.values):
            self.refuse("a tensor of its own is met on another path")

    def _insist(self, truth: bool, why: str) -> None:
        if not truth:
            self.refuse(why)
            raise Refused


def _has_lazy(events: Sequence[object], result: Shape) -> bool:
    return any(shape[0] == "lazy" for shape in _parts([*_operands(events), result]))


def _tensors_of_others(events: Sequence[object]) -> Iterator[tuple[TensorValue, object]]:
    """The operands from elsewhere, and what they were."""
    for kind, *rest in _parts(_operands(events)):
        if kind == "outside" and isinstance(rest[0].held, TensorValue):
            yield rest[0].held, rest[1]


def _operands(events: Sequence[object]) -> Iterator[Shape]:
    for event in events:
        if isinstance(event, Recorded):
            yield from (*event.args, *(shape for _, shape in event.kwargs))


def _parts(shapes: Iterable[Shape]) -> Iterator[Shape]:
    """Shapes, and those within them."""
    for shape in shapes:
        yield shape
        if shape[0] is dict:
            yield from _parts(item for _, item in shape[1])
        elif shape[0] in (list, tuple, torch.Size, slice):
            yield from _parts(shape[1])
