"""Exception objects that the evaluated code makes, raises and catches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from capture.sources import Source
from capture.values.base import Tracer, Value
from capture.values.constant import NONE
from capture.values.sequence import TupleValue
from capture.values.user_object import UserObject


class ExceptionValue(UserObject):
    def __init__(
        self, cls: type[BaseException], args: Sequence[Value] = (), obj: Any = None, source: Source | None = None
    ) -> None:
        super().__init__(cls, obj, source)
        self.new_args = list(args)

    def plain_attribute(self, ctx: Tracer, name: str) -> Value | None:
        if name not in self.overlay and self.source is None:
            if name == "args":
                return TupleValue(self.new_args)
            if name == "value" and self.cls is StopIteration:
                return self.new_args[0] if self.new_args else NONE
            if name in ("__cause__", "__context__", "__traceback__"):
                return NONE
        return super().plain_attribute(ctx, name)

    def plain_set(self, ctx: Tracer, name: str, value: Value | None) -> None:
        if name in ("__cause__", "__context__", "__traceback__", "__suppress_context__"):
            return  # seen only in tracebacks, and an exception that leaves the frame is raised by CPython
        super().plain_set(ctx, name, value)
