"""``functools.partial``: a function with arguments, of which those by name are in a dict that programs can change."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, DictSource, KeySource, Source
from capture.reasons import Kind
from capture.values.base import Tracer, Value, realize
from capture.values.constant import ConstantValue
from capture.values.instance_dict import dict_to_read
from capture.values.mapping import DictValue

_PARTS = ("func", "args", "keywords", "__dict__", "__class__")
"""Attributes that an entry of the object's ``__dict__`` does not hide."""


class PartialValue(Value):
    """A partial, made here or, with ``obj``, found at ``source``."""

    def __init__(
        self,
        function: Value,
        args: Sequence[Value],
        kwargs: Mapping[str, Value],
        source: Source | None = None,
        obj: functools.partial[object] | None = None,
    ) -> None:
        self.function = function
        self.args = list(args)
        self.source = source
        self.obj = obj
        self._kwargs = dict(kwargs)
        self.keywords: DictValue | None = None
        """The dict of a real one, which is the one that others may have."""

    @property
    def kwargs(self) -> dict[str, Value]:
        """The arguments by name, as they are by now."""
        if self.keywords is None:
            return self._kwargs
        return {str(key): item for key, (_, item) in self.keywords.entries.items()}

    def python_type(self) -> type:
        return functools.partial

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        if self.keywords is not None and not all(type(key) is str for key in self.keywords.entries):
            ctx.stop(Kind.CALL, f"a keyword of {self.describe()} is not a `str`", "use a `str`")
        # Given keywords win over those that were kept.
        return ctx.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def attribute(self, ctx: Tracer, name: str) -> Value:
        # CPython flattens partials of partials when it makes them; this one was only made here.
        if name in _PARTS and self.source is None and isinstance(self.function, PartialValue):
            ctx.stop(Kind.ATTRIBUTE, f"`{name}` of {self.describe()}, which is made of another, is read")
        if name == "func":
            return self.function
        if name == "args" and self.source is not None and self.obj is not None:
            return ctx.wrap(self.obj.args, AttrSource(self.source, name))
        if name == "keywords" and self.keywords is not None:
            return self.keywords
        if name == "__dict__" and self.source is not None and self.obj is not None:
            return dict_to_read(ctx, self, self.obj)
        if name in _PARTS:
            return super().attribute(ctx, name)
        return self._other_attribute(ctx, name)

    def _other_attribute(self, ctx: Tracer, name: str) -> Value:
        """The attribute that a program hung on the partial, as ``functools.update_wrapper`` does; else its class's."""
        if self.source is not None and self.obj is not None:
            held = vars(self.obj)
            if name in held:
                return ctx.wrap(held[name], AttrSource(self.source, name))
            ctx.guard(KeySource(DictSource(self.source), name), GuardKind.ABSENT)
        if name in ("__module__", "__doc__"):
            return ConstantValue(getattr(functools.partial, name))
        return super().attribute(ctx, name)

    def parts(self) -> Iterator[Value]:
        yield self.function
        yield from self.args
        yield from self.kwargs.values()


def partial_found(ctx: Tracer, obj: functools.partial[object], source: Source, args: Sequence[Value]) -> PartialValue:
    """The value of a real partial: its dict is one value, by whatever path the program reaches it."""
    found = PartialValue(ctx.wrap(obj.func, AttrSource(source, "func")), args, {}, source, obj)
    keywords = realize(ctx, ctx.wrap(obj.keywords, AttrSource(source, "keywords")))
    if not isinstance(keywords, DictValue):
        ctx.stop(Kind.CALL, f"the keywords of {source.expression()} are no plain dict")
    found.keywords = keywords
    return found
