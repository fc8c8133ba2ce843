"""Functions that ``torch.jit`` compiled: objects that are called, of which the graph knows operators alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from capture.values.base import Tracer, Value
from capture.values.user_object import UserObject


class ScriptedValue(UserObject):
    """A ``torch.jit.ScriptFunction``, known by its identity: what it computes never changes."""

    def call(self, ctx: Tracer, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        return ctx.call_builtin(call_of_scripted, [self, *args], dict(kwargs))


def call_of_scripted(function: object, *args: object, **kwargs: object) -> object:
    """A call of such a function; the rules give it a symbolic meaning."""
    raise NotImplementedError
