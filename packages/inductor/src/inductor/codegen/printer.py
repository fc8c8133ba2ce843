"""Lines, blocks and names of printed text; nothing here knows what the text means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    """Text under construction, at the current depth of indentation."""

    def __init__(self, indent: str = "    ") -> None:
        self._indent = indent
        self._depth = 0
        self._lines: list[str] = []

    def line(self, text: str = "") -> None:
        self._lines.append(self._indent * self._depth + text if text else "")

    def lines(self, *texts: str) -> None:
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, opening: str, closing: str | None = None) -> Iterator[None]:
        """Everything printed inside is one step deeper; ``closing`` ends it where the language wants an end."""
        self.line(opening)
        with self.deeper():
            yield
        if closing is not None:
            self.line(closing)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Everything printed inside is one step deeper."""
        self._depth += 1
        yield
        self._depth -= 1

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"


class Names:
    """Hands out names that nobody has yet: ``t0``, ``t1``..."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self._taken = set(taken or ())
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def inner(self) -> Names:
        """Names for a block: they may not hide what is outside, and are free again after it."""
        nested = Names(self._taken)
        nested._next = dict(self._next)
        return nested

    def reserve(self, name: str) -> str:
        self._taken.add(name)
        return name

    def fresh(self, prefix: str) -> str:
        number = self._next.get(prefix, 0)
        while (name := f"{prefix}{number}") in self._taken:
            number += 1
        self._next[prefix] = number + 1
        return self.reserve(name)
