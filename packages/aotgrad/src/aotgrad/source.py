"""Python source written by this package and turned into functions that a debugger and a traceback can show.

Must not know: what the code is for.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from typing import Any

from aotgrad.state import STATE

_LITERALS = (int, str, bool, type(None))


class Source:
    """Lines of one module, and the objects that its names mean."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._named: dict[int, str] = {}

    def add(self, line: str, indent: int = 0) -> None:
        self.lines.append("    " * indent + line)

    def constant(self, value: Any, hint: str = "constant") -> str:
        """A name for an object that has no literal."""
        known = self._named.get(id(value))
        if known is None:
            known = self._named[id(value)] = f"{hint}_{len(self._named)}"
            self.names[known] = value
        return known

    def literal(self, value: Any, leaf: Callable[[Any], str | None] = lambda value: None) -> str:
        """An expression for `value`; `leaf` may answer for values that it knows."""
        own = leaf(value)
        if own is not None:
            return own
        if type(value) in _LITERALS or (type(value) is float and math.isfinite(value)):
            return repr(value)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            items = ", ".join(self.literal(item, leaf) for item in value)
            return f"[{items}]" if isinstance(value, list) else f"({items}{',' if len(value) == 1 else ''})"
        if isinstance(value, slice):
            return f"slice({', '.join(self.literal(v, leaf) for v in (value.start, value.stop, value.step))})"
        return self.constant(value, type(value).__name__.lower())

    def call(self, target: str, args: Any, kwargs: Any, leaf: Callable[[Any], str | None] = lambda value: None) -> str:
        """The expression `target(*args, **kwargs)`."""
        parts = [self.literal(arg, leaf) for arg in args]
        parts += [f"{key}={self.literal(value, leaf)}" for key, value in kwargs]
        return f"{target}({', '.join(parts)})"

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def build(self, title: str) -> dict[str, Any]:
        """Run the lines; the namespace that they leave."""
        text, filename = self.text(), f"<generated: aotgrad {title} {next(STATE.source_numbers)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace = dict(self.names)
        exec(compile(text, filename, "exec"), namespace)
        return namespace
