"""``contextvars.ContextVar``: its value is read where the program reads it; what is set is set at its end."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from capture.guards.kinds import GuardKind
from capture.guards.sources import CallSource, Source
from capture.values.base import Tracer, Value, realize


@dataclass(frozen=True)
class _Unset:
    """The object that stands for no value."""


_UNSET = _Unset()


class ContextVarValue(Value):
    """``pending`` are the tokens of what was set here and not reset yet, oldest first."""

    def __init__(self, var: contextvars.ContextVar[object], source: Source) -> None:
        self.var = var
        self.source = source
        self.pending: list[TokenValue] = []
        self._reader = functools.partial(var.get, _UNSET)

    def python_type(self) -> type:
        return contextvars.ContextVar

    def identity(self) -> object:
        return self.var

    def current(self, ctx: Tracer) -> Value | None:
        """The value that it has in this context; None where it has none."""
        if self.pending:
            return realize(ctx, self.pending[-1].value)
        found = self._reader()
        source = CallSource(self._reader, f"{self.var.name}.get()")
        # A default of ``get`` is no value: that none is set is another state, in which nothing can be wrapped.
        if found is _UNSET:
            ctx.guard(source, GuardKind.IS, _UNSET, text=f"{self.var.name} is not set")
            return None
        return ctx.wrap(found, source)

    def set(self, ctx: Tracer, value: Value) -> TokenValue:
        ctx.changed(self)
        token = TokenValue(self, value)
        self.pending.append(token)
        return token

    def parts(self) -> Iterator[Value]:
        return iter(self.pending)


class TokenValue(Value):
    """The token that ``set`` returns."""

    def __init__(self, owner: ContextVarValue, value: Value) -> None:
        self.owner = owner
        self.value = value

    def python_type(self) -> type:
        return contextvars.Token

    def parts(self) -> Iterator[Value]:
        yield self.value
