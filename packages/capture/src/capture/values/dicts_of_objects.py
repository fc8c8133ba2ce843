"""Dicts that are the ``__dict__`` of an object: the two are one thing, by whatever paths the program meets them.

    o, then d = vars(o) by another path     d is the view of o that ``o.__dict__`` gives (``values/instance_dict``)
    d, then o                               both are read as they are; a write to either ends the graph
    a dict and an object apart              where one of them is written, later calls have to bring two as well

Must not know what kinds of objects do with their attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, ModuleType

from capture.guards.sources import ArgSource, ClosureSource, DictSource, GlobalSource, Source, comes_with_the_call
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize, trusted
from capture.values.classes import PythonModuleValue
from capture.values.function import FunctionValue
from capture.values.identity import rely_on_distinct_paths
from capture.values.module import ModuleValue
from capture.values.partial import PartialValue
from capture.values.tensor import TensorValue
from capture.values.user_object import UserObject, instance_dict

_SHOWN = (UserObject, FunctionValue, PartialValue, PythonModuleValue)
"""The kinds whose ``__dict__`` has a value that follows theirs."""
_OF_CODE = (FunctionType, ModuleType)


class DictsOfObjects:
    """The plain dicts and the objects with a ``__dict__`` that one evaluation met."""

    def __init__(self) -> None:
        self._objects: list[tuple[object, Value]] = []
        self._asked = 0
        # By the address of their dict, which a property may have made for us, of the first ``_asked`` objects.
        self._owners: dict[int, tuple[object, Value]] = {}
        self._dicts: dict[int, Value] = {}
        self._joined: dict[Value, Value] = {}

    def let_go(self) -> None:
        for kept in (self._objects, self._owners, self._dicts, self._joined):
            kept.clear()

    def view(self, ctx: Tracer, held: object) -> Value | None:
        """The value of a real dict that is the ``__dict__`` of an object that was met before."""
        for obj, value in self._objects[self._asked :]:  # to ask makes the dict, so it is done where one is looked for
            own = instance_dict(obj)
            self._owners[id(own)] = own, value
        self._asked = len(self._objects)
        _, owner = self._owners.get(id(held), (held, None))
        if owner is None:
            return None
        if isinstance(owner, UserObject):
            return owner.instance_view(ctx)
        if isinstance(owner, _SHOWN):
            return realize(ctx, owner.attribute(ctx, "__dict__"))
        return ctx.stop(Kind.ATTRIBUTE, f"the `__dict__` of {owner.describe()} is met by another path")

    def meet(self, ctx: Tracer, obj: object, value: Value) -> None:
        """Notes an object, or a dict, that is new."""
        cls = type(obj)
        if cls is dict:
            self._dicts[id(obj)] = value
        elif cls.__dictoffset__ and not issubclass(cls, type) and not (cls in _OF_CODE and trusted(obj)):
            self._objects.append((obj, value))
            if self._dicts and (held := self._dicts.get(id(instance_dict(obj)))) is not None:
                self.join(ctx, value, held)

    def join(self, ctx: Tracer, owner: Value, held: Value) -> None:
        """Two values for one thing: neither may change from here on, nor have changed."""
        if any(each in (owner, held) for each in ctx.effects.changed()):
            self._stop(ctx, owner, held)
        self._joined[owner], self._joined[held] = held, owner

    def before_a_change(self, ctx: Tracer, value: Value) -> None:
        """Ends the graph where a change would be missed by another value for the same thing."""
        if self._joined and (other := self._joined.get(value)) is not None:
            self._stop(ctx, value, other)

    def _stop(self, ctx: Tracer, *both: Value) -> None:
        first, second = (each.describe() for each in both)
        ctx.stop(Kind.ATTRIBUTE, f"{first} and {second} are an object and its `__dict__`, and one of them is written")

    def rely_on_separate(self, ctx: Tracer, changed: Iterable[Value]) -> None:
        """Relies on no dict being that of an object beside it, where one of the two was written.

        Submodules, parameters and functions on longer paths are not compared with a dict that was written: there are
        many, and nobody passes their attributes besides.
        """
        written = set(changed)
        owners = {value: source for obj, value in self._objects if (source := _path(obj, value)) is not None}
        dicts = {value: value.source for value in self._dicts.values() if value.source is not None}
        ours = {value: source for value, source in owners.items() if value in written and _writes_attributes(value)}
        theirs = {value: source for value, source in dicts.items() if value in written}
        _rely(ctx, ours.values(), (source for value, source in dicts.items() if value not in self._joined))
        others = (value for value in owners if value not in ours and value not in self._joined)
        _rely(ctx, theirs.values(), (owners[value] for value in others if _is_beside(value)))


def _path(obj: object, value: Value) -> Source | None:
    """The path to the object's dict; None where it has none that is the same for all who ask."""
    own = not getattr(value, "is_of_thread", False) and instance_dict(obj) is not None
    return DictSource(value.source) if own and value.source is not None else None


def _is_beside(value: Value) -> bool:
    """True for an object that may well come beside its dict."""
    plain = isinstance(value, UserObject) and not isinstance(value, ModuleValue)
    return plain or isinstance(value.source, (ArgSource, GlobalSource, ClosureSource))


def _writes_attributes(value: Value) -> bool:
    """True if the write is one to the dict: a gradient is not."""
    return not isinstance(value, TensorValue) or not value.written.keys() <= {"grad"}


def _rely(ctx: Tracer, written: Iterable[Source], others: Iterable[Source]) -> None:
    """Relies on the difference where a caller has a say in it: what modules and globals hold stays what it is."""
    first, rest = list(written), list(others)
    if not any(map(comes_with_the_call, first)):
        rest = [source for source in rest if comes_with_the_call(source)]
    if first and rest:
        rely_on_distinct_paths(ctx, first, rest)
