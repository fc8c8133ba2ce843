"""``ContextVar.get``, ``set`` and ``reset``."""

from __future__ import annotations

import contextvars

from capture.evaluator.builtin_rules.registry import rule
from capture.guards.sources import ConstSource
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import NONE
from capture.values.context_var import ContextVarValue, TokenValue


@rule(contextvars.ContextVar.get, kinds=(ContextVarValue,))
def get(ctx: Tracer, var: ContextVarValue, default: Value | None = None) -> Value:
    """``ContextVar.get``; the variable's own default lies in C and does not change."""
    found = var.current(ctx)
    if found is not None:
        return found
    if default is not None:
        return default
    try:
        fallback: object = var.var.get()
    except LookupError:
        ctx.throw(LookupError, var)
    # By no path that code has: what it holds may change all the same.
    return ctx.wrap(fallback, ConstSource(fallback, f"the default of {var.describe()}"))


@rule(contextvars.ContextVar.set, kinds=(ContextVarValue, None))
def assign(ctx: Tracer, var: ContextVarValue, value: Value) -> Value:
    return var.set(ctx, value)


@rule(contextvars.ContextVar.reset, kinds=(ContextVarValue, TokenValue))
def reset(ctx: Tracer, var: ContextVarValue, token: TokenValue) -> Value:
    # Only the newest may be taken back here: CPython marks tokens as used, which values do not show.
    if token.owner is not var or not var.pending or var.pending[-1] is not token:
        ctx.stop(Kind.CONTEXT_VARIABLE, "a context variable is reset with a token that is not its newest")
    var.pending.pop()
    return NONE
