"""The table of what this package uses of torch's insides: a row for each name, which a torch to come may lack.

What torch has is handed out as it is.  What it lacks is an ``Absent``: it may be imported, kept in tables, derived from
and caught; to call it or look into it raises one sentence.  The text is the same in every package, since the engines
import nothing of each other.
Must not know: what the rows are for.
"""

from __future__ import annotations

import importlib
import keyword
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, NoReturn


class _Missing(AttributeError):
    """Torch has nothing by this path."""


@dataclass(frozen=True, slots=True)
class Inside:
    """A dotted path into torch, why it is used, and what happens without it; ``Module()`` in it is an instance."""

    path: str
    why: str
    without: str
    essential: bool = False
    """True if nothing at all can be done without it."""
    attribute: bool = False
    """True if it is read from instances: ``torch.Tensor._version`` is then a function of a tensor."""
    since: str = ""
    """The first release that has it, for those who read the table: torch itself is asked."""
    build: str = ""
    """The build of torch that has it, ``CUDA`` for one; empty for any."""

    @property
    def name(self) -> str:
        """The name that modules import it by; operators are read from their namespace."""
        if self.path.startswith("torch.ops.") and not self.attribute:
            return self.path
        name = self.path.rpartition(".")[2].lstrip("_")
        return f"{name}_of" if self.attribute else f"{name}_" if keyword.iskeyword(name) else name

    def find(self) -> Any:
        """The thing itself, if torch has it."""
        if not self.attribute:
            return _find(self.path)
        owner, _, name = self.path.rpartition(".")
        if not hasattr(_find(owner), name):
            raise _Missing(self.path)
        return operator.attrgetter(name)


def _find(path: str) -> Any:
    """The object at a dotted path, whose modules are imported on the way."""
    root, *names = path.split(".")
    found: Any = importlib.import_module(root)
    for count, part in enumerate(names, 2):
        name, call, arguments = part.partition("(")
        try:
            found = getattr(found, name)
        except AttributeError:
            # A submodule that nobody has imported yet is no attribute of its package.
            if not (isinstance(found, ModuleType) and "__path__" in vars(found)):
                raise _Missing(path) from None
            try:
                found = importlib.import_module(".".join(path.split(".")[:count]))
            except ImportError as error:
                raise _Missing(path) from error
        if call:
            found = found(*filter(None, [arguments.rstrip(")")]))
    return found


def operators(names: str, why: str, without: str, namespace: str = "torch.ops.aten") -> Iterator[Inside]:
    """Rows for operators that torch counts among its insides."""
    return (Inside(f"{namespace}.{name}", why, without) for name in names.split())


_OF_DESCRIPTORS = ("__get__", "__set__")
"""Parts that members of a class have, by which tables know the functions of torch behind attributes."""


class Absent(type):
    """The class that stands for something that torch lacks: false, empty, and nothing is an instance of it."""

    complain: Callable[[], NoReturn]

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        cls.complain()

    def __getitem__(cls, key: object) -> Any:
        cls.complain()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name not in _OF_DESCRIPTORS:
            raise AttributeError(name)
        part = Absent(name, (Exception,), {"complain": staticmethod(cls.complain)})
        setattr(cls, name, part)  # each part is one of its own, and the same every time
        return part

    def __bool__(cls) -> bool:
        return False

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Insides:
    """The rows of one package; ``error`` makes the package's own exception out of a sentence."""

    def __init__(self, error: Callable[[str], Exception], rows: Iterable[Inside]) -> None:
        self.error = error
        self.rows = {row.name: row for row in rows}

    def get(self, name: str) -> Any:
        """The object that the row of this name stands for, or an ``Absent``; for a module's ``__getattr__``."""
        row = self.rows.get(name)
        if row is None:
            raise AttributeError(f"no row of the table is called {name!r}")
        try:
            return row.find()
        except _Missing:
            return self._absent(row)

    def operators(self, namespace: str) -> Any:
        """``torch.ops.aten`` and its like, with an ``Absent`` for what this torch lacks: no graph can hold those."""
        return _Operators(self, namespace)

    def lacking(self, *, cuda: bool = True) -> dict[str, str]:
        """The rows that torch lacks, by path, with the sentence that says what happens without each.

        Without ``cuda``, what belongs to builds for CUDA alone is not missed.
        """
        asked = [row for row in self.rows.values() if cuda or row.build != "CUDA"]
        return {row.path: _sentence(row) for row in asked if _is_lacking(row)}

    @cached_property
    def unusable(self) -> str:
        """The sentence that says why nothing of the package can work with this torch; empty where it can."""
        return next((_sentence(row) for row in self.rows.values() if row.essential and _is_lacking(row)), "")

    def require_essentials(self) -> None:
        if self.unusable:
            raise self.error(self.unusable)

    def _absent(self, row: Inside) -> Any:
        def complain() -> NoReturn:
            raise self.error(_sentence(row))

        # An exception, so that ``except`` takes it.
        return Absent(row.name, (Exception,), {"complain": staticmethod(complain)})


class _Operators:
    def __init__(self, insides: Insides, namespace: str) -> None:
        self._insides, self._namespace = insides, namespace

    def __getattr__(self, name: str) -> Any:
        path = f"{self._namespace}.{name}"
        found = self._insides.get(path) if path in self._insides.rows else _find(path)
        setattr(self, name, found)
        return found


def _is_lacking(row: Inside) -> bool:
    try:
        row.find()
    except _Missing:
        return True
    return False


def _sentence(row: Inside) -> str:
    version = importlib.import_module("torch").__version__
    return f"torch {version} has no `{row.path}`, {row.why}: {row.without}"
