"""Regular expressions, paths and versions: functions of texts, which are computed at once where the texts are known."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from capture.builtin_rules.registry import fold, name_of, pure, rule
from capture.values.base import Tracer, Value

pure(os.fspath, re.escape, sys.intern)
# From 3.13 on parts of ``os.path`` are made in C.
pure(*(f for name in ("splitroot", "normpath") if isinstance(f := getattr(os.path, name, None), BuiltinFunctionType)))


def _of_texts(function: Callable[..., Any]) -> None:
    @rule(function)
    def compute(ctx: Tracer, *args: Value, **options: Value) -> Value:
        found = fold(ctx, function, args, options)
        return found if found is not None else ctx.stop("text", f"{name_of(function)} is given a text of the run")


for _function in (re.compile, re.match, re.search, re.fullmatch, re.split, re.findall, re.sub):
    _of_texts(_function)
