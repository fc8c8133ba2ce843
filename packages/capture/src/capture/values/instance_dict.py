"""The ``__dict__`` of an object, which lives: what is written there is an attribute, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, NoReturn

from capture.guards.kinds import GuardKind
from capture.guards.sources import DictSource, KeySource
from capture.reasons import Kind
from capture.values.base import LazyValue, Tracer, Value, held_by, realize
from capture.values.constant import ConstantValue
from capture.values.mapping import DictValue, Entries, key_of


class InstanceDict(DictValue):
    """``owner`` keeps the attributes; this is another way to read and write them."""

    cls = dict
    default_factory = None

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.source = None if owner.source is None else DictSource(owner.source)
        self.attributes = self.assigned = {}  # a plain dict has none

    @property
    def entries(self) -> Entries:  # type: ignore[override]
        found: Entries = {}
        for name, held in self.owner.instance_entries():
            found[name] = (ConstantValue(name), held)
        return found

    def put(self, ctx: Tracer, key: Value, value: Value) -> None:
        name = key_of(ctx, key)
        if type(name) is not str:
            ctx.stop(Kind.ATTRIBUTE, f"`__dict__` of {self.owner.describe()} is given a key that is no `str`")
        # An attribute of that name is the slot; only the dict would have the entry, and the overlay knows one of the
        # two.
        if isinstance(held_by(self.owner.cls, name), (MemberDescriptorType, GetSetDescriptorType)):
            ctx.stop(Kind.ATTRIBUTE, f"`__dict__` of {self.owner.describe()} is given `{name}`, which is also a slot")
        ctx.changed(self.owner)
        self.owner.keep(name, value)

    def remove(self, ctx: Tracer, key: Value) -> Value | None:
        name = key_of(ctx, key)
        found = self.entries.get(name)
        if found is None:
            return None
        ctx.changed(self.owner)
        self.owner.forget(ctx, name)
        return realize(ctx, found[1])


class ReadDict(DictValue):
    """The ``__dict__`` of an object whose attributes the graph does not write: who writes here ends it."""

    def __init__(self, ctx: Tracer, owner: Value, held: Mapping[str, object]) -> None:
        assert owner.source is not None
        path = DictSource(owner.source)
        super().__init__(path)
        self.owner = owner
        if not all(type(name) is str for name in held):
            ctx.stop(Kind.ATTRIBUTE, f"the `__dict__` of {owner.describe()} has keys that are no texts")
        ctx.guard(path, GuardKind.KEYS, tuple(held))
        items = {name: LazyValue(obj, KeySource(path, name)) for name, obj in held.items()}
        self.entries = {name: (ConstantValue(name), item) for name, item in items.items()}

    def put(self, ctx: Tracer, key: Value, value: Value) -> None:
        self._leave(ctx)

    def remove(self, ctx: Tracer, key: Value) -> Value | None:
        return self._leave(ctx) if key_of(ctx, key) in self.entries else None

    def _leave(self, ctx: Tracer) -> NoReturn:
        ctx.stop(Kind.ATTRIBUTE, f"the `__dict__` of {self.owner.describe()} is written")


def dict_to_read(ctx: Tracer, owner: Value, obj: object) -> Value:
    """The ``__dict__`` of a real object of such a kind, one value however often it is asked for."""
    held: dict[str, object] = vars(obj)
    if (known := ctx.known(held)) is not None:
        return known
    made = ReadDict(ctx, owner, held)
    ctx.stand_for(held, made)
    return made
