"""The ``__dict__`` of an object, which lives: what is written there is an attribute, and the other way round."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from capture.guards.sources import DictSource
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
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
        # An attribute of that name is the slot; only the dict would have the entry, and the overlay knows one of the
        # two.
        if isinstance(name, str) and isinstance(getattr(self.owner.cls, name, None), MemberDescriptorType):
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
