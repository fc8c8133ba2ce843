"""Regular expressions, paths and versions: functions of texts, which are computed at once where the texts are known."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any

from capture.evaluator.builtin_rules.registry import fold, name_of, pure, rule
from capture.reasons import Kind
from capture.silence import raised
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.iterator import FoundIterator

pure(os.fspath, re.escape, sys.intern)
# From 3.13 on parts of ``os.path`` are made in C.
pure(*(f for name in ("splitroot", "normpath") if isinstance(f := getattr(os.path, name, None), BuiltinFunctionType)))


def _of_texts(function: Callable[..., object]) -> None:
    """Registers a function of texts, which is computed now."""

    @rule(function)
    def compute(ctx: Tracer, *args: Value, **options: Value) -> Value:
        _insist_on_quiet(ctx, function, [*args, *options.values()])
        found = fold(ctx, function, args, options)
        return (
            found
            if found is not None
            else ctx.stop(Kind.TEXT, f"{name_of(function)} is given a text that is known only when it runs")
        )


def _insist_on_quiet(ctx: Tracer, function: Callable[..., Any], operands: Sequence[Value]) -> None:
    """Breaks the graph where compiling a pattern for the first time would warn, or print.

    That is said where the program is.
    """
    if any(isinstance(flag, ConstantValue) and _is_debug(flag.value) for flag in operands):
        ctx.stop(Kind.TEXT, f"{name_of(function)} prints its pattern")
    pattern = operands[0] if operands else None
    if not isinstance(pattern, ConstantValue) or type(pattern.value) not in (str, bytes):
        return
    flags = next((flag.value for flag in operands if isinstance(flag, ConstantValue) and _is_flag(flag.value)), 0)
    # Compiled here to see whether it warns; ``re`` then has it in its cache, and says nothing at the call.
    try:
        with raised():
            re.compile(pattern.value, flags)
    except Warning:
        ctx.stop(Kind.TEXT, f"{name_of(function)} warns of its pattern")
    except Exception:  # noqa: BLE001 - of a pattern that is none; the call says so
        return


def _is_flag(value: object) -> bool:
    return isinstance(value, re.RegexFlag)


def _is_debug(value: object) -> bool:
    return isinstance(value, re.RegexFlag) and bool(value & re.DEBUG)


@rule(re.Pattern.finditer, kinds=(ConstantValue, ConstantValue))
def find_one_by_one(
    ctx: Tracer, pattern: ConstantValue, string: Value, pos: Value | None = None, endpos: Value | None = None
) -> Value:
    """The matches, found at once, of an iterator that each call makes anew: it has a position."""
    operands = [pattern, string, *([] if pos is endpos is None else [pos or ConstantValue(0)])]
    operands += [] if endpos is None else [endpos]
    found = fold(ctx, _found_at_once, operands, {})
    if found is None:
        ctx.stop(Kind.TEXT, f"{string.describe()} is searched, which is known only when it runs")
    return FoundIterator(_ITERATOR, re.Pattern.finditer, operands, found.elements(ctx))


_ITERATOR = type(re.compile("").finditer(""))


def _found_at_once(pattern: re.Pattern[str], string: str, *bounds: int) -> list[re.Match[str]]:
    return list(pattern.finditer(string, *bounds))


@rule(re.finditer)
def find_in_text(ctx: Tracer, pattern: Value, string: Value, flags: Value | None = None) -> Value:
    compiled = ctx.call_builtin(re.compile, [pattern] if flags is None else [pattern, flags], {})
    return ctx.call_builtin(re.Pattern.finditer, [compiled, string], {})


for _function in (re.compile, re.match, re.search, re.fullmatch, re.split, re.findall, re.sub):
    _of_texts(_function)
