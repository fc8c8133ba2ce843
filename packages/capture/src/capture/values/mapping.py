"""Dicts and their subclasses, and the views of them.

Entries are held by a hash of ours (``key_of``): constants by themselves, objects by their identity.  So two values are
one key exactly where Python would find them equal; where that would take code of the program, or a NaN, the graph
ends.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

from capture.guards.kinds import GuardKind
from capture.guards.sources import DictSource, KeySource, Source
from capture.reasons import Kind
from capture.values.base import NotConstant, Tracer, Value, held_by, module_name, realize, root_package, type_name
from capture.values.constant import differs_from_itself
from capture.values.sequence import TupleValue
from capture.values.slots import has_code_for


class ObjectKey:
    """A key that is compared by identity: a module, a tensor, a function."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and other.value.identity() is self.value.identity()

    def __hash__(self) -> int:
        return id(self.value.identity())


def key_of(ctx: Tracer, value: Value) -> object:
    """The key under which a value is held: equal for two values exactly where Python finds one key in them."""
    value = realize(ctx, value)
    # A tuple of objects hashes by its items.
    if isinstance(value, TupleValue):
        return tuple(key_of(ctx, item) for item in value.items)
    try:
        key = value.constant()
        if is_compared_by_code(key):
            ctx.stop(
                Kind.HASH, f"{value.describe()} is hashed and compared by code of its own", "use a constant as key"
            )
        # Raises the TypeError that the program would see.
        hash(key)
        if differs_from_itself(key):
            ctx.stop(Kind.HASH, "NaN is looked for as a key, which depends on which object it is")
        return key
    except NotConstant:
        # No constant: a tensor, a module, an object of the program's.
        return _identity_key(ctx, value)
    except TypeError:
        ctx.throw(TypeError, f"unhashable type: '{type_name((value.whole or value).python_type())}'")


def is_compared_by_code(key: object) -> bool:
    """True if looking for this key runs code of the program; that of an enum is known."""
    if isinstance(key, (tuple, frozenset)):
        return any(is_compared_by_code(item) for item in key)
    own = [held_by(type(key), name) for name in ("__hash__", "__eq__") if has_code_for(type(key), name)]
    return any(member is not None and module_name(member) != "enum" for member in own)


def _identity_key(ctx: Tracer, value: Value) -> ObjectKey:
    """The key of an object that hashes by its identity."""
    cls = (value.whole or value).python_type()
    if cls in (int, float, bool):
        ctx.stop(Kind.HASH, f"{value.describe()} is hashed", "use a constant as key")
    if cls.__hash__ is None:
        ctx.throw(TypeError, f"unhashable type: '{type_name(cls)}'")
    if not _hashes_by_identity(cls):
        ctx.stop(Kind.HASH, f"{value.describe()} is hashed by code of its own", "use a constant as key")
    # It must be none of the others that are keys, in later calls too: relied on there.
    ctx.keys.add(ctx, value)
    return ObjectKey(value)


def _hashes_by_identity(cls: type) -> bool:
    """True if objects of the class are equal to nothing but themselves.

    Torch's are, by code in C and in Python; any other that hashes by code of its own may equal something else: a
    number of numpy's, a ``Decimal``, a class derived from ``str``.
    """
    own: object = cls.__hash__
    return own is object.__hash__ or root_package(own) == "torch"


Entries = dict[Any, tuple[Value, Value]]


class DictValue(Value):
    """Insertion-ordered entries: hashable key -> (key as a value, value)."""

    moves = 0
    """Counts the times that keys came or went; iterators compare it."""

    def __init__(self, source: Source | None = None, cls: type = dict) -> None:
        self.entries: Entries = {}
        self.source = source
        self.cls = cls
        self.default_factory: Value | None = None
        self.attributes: dict[str, Value] = {}  # of an OrderedDict, which may have some
        self.assigned: dict[str, Value] = {}
        self.found: Entries = {}  # what a dict of the world held when it was met

    def entries_changed(self) -> tuple[list[Value], list[tuple[Value, Value]]] | None:
        """The keys to take out, then the entries to write; None where that would not give the order of the keys."""
        # Found a b c, now a c d: b is taken out, d written.  Neither c a d nor a c b can be reached so.
        kept = [key for key in self.found if key in self.entries]
        if [*self.entries][: len(kept)] != kept or self.cls is not dict:
            return None
        gone = [self.found[key][0] for key in self.found if key not in self.entries]
        # Entries are pairs that are replaced when they change, so that identity tells which did.
        return gone, [entry for key, entry in self.entries.items() if self.found.get(key) is not entry]

    def python_type(self) -> type:
        return self.cls

    def attribute(self, ctx: Tracer, name: str) -> Value:
        # Only an OrderedDict has a ``__dict__``.
        if self.cls is not collections.OrderedDict or hasattr(self.cls, name):
            return super().attribute(ctx, name)
        if name in self.attributes:
            return realize(ctx, self.attributes[name])
        if self.source is not None:
            ctx.guard(KeySource(DictSource(self.source), name), GuardKind.ABSENT)
        return ctx.throw(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        may_have = self.cls is collections.OrderedDict and self.whole is None
        if not may_have or value is None or hasattr(self.cls, name):
            super().set_attribute(ctx, name, value)
        else:
            ctx.changed(self)
            self.attributes[name] = self.assigned[name] = value

    def get(self, ctx: Tracer, key: Value) -> Value | None:
        found = self.entries.get(key_of(ctx, key))
        return None if found is None else realize(ctx, found[1])

    def get_constant(self, ctx: Tracer, key: object) -> Value | None:
        found = self.entries.get(key)
        return None if found is None else realize(ctx, found[1])

    def put(self, ctx: Tracer, key: Value, value: Value) -> None:
        hashed = key_of(ctx, key)
        self._insist_on_writing(ctx)
        ctx.changed(self)
        kept = self.entries.get(hashed)
        self.moves += kept is None
        # As in CPython the first key stays where an equal one is assigned: ``{1: a}`` after ``d[True] = b`` has the key
        # 1.
        self.entries[hashed] = (kept[0] if kept else key, value)

    def remove(self, ctx: Tracer, key: Value) -> Value | None:
        hashed = key_of(ctx, key)
        self._insist_on_writing(ctx)
        if hashed not in self.entries:
            return None
        ctx.changed(self)
        self.moves += 1
        item = realize(ctx, self.entries.pop(hashed)[1])
        ctx.effects.take(ctx, self, item)
        return item

    def _insist_on_writing(self, ctx: Tracer) -> None:
        if self.cls is MappingProxyType:
            ctx.stop(Kind.MAPPING, f"{self.describe()} is written, which is read-only")

    def elements(self, ctx: Tracer) -> list[Value]:
        return [key for key, _ in self.entries.values()]

    def truth(self, ctx: Tracer) -> bool:
        return bool(self.entries)

    def parts(self) -> Iterator[Value]:
        yield from self.pairs()
        yield from self.attributes.values()

    def pairs(self) -> Iterator[Value]:
        """Keys and values in turns."""
        for key, value in self.entries.values():
            yield key
            yield value


class DictView(Value):
    """``d.keys()``, ``d.values()`` or ``d.items()``."""

    def __init__(self, owner: DictValue, which: str) -> None:
        self.owner = owner
        self.which = which

    def python_type(self) -> type:
        return type(getattr({}, self.which)())

    def elements(self, ctx: Tracer) -> list[Value]:
        if self.which == "keys":
            return [key for key, _ in self.owner.entries.values()]
        if self.which == "values":
            return [value for _, value in self.owner.entries.values()]
        return [TupleValue([key, value]) for key, value in self.owner.entries.values()]

    def truth(self, ctx: Tracer) -> bool:
        return bool(self.owner.entries)

    def parts(self) -> Iterator[Value]:
        yield self.owner
