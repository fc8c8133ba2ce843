"""Guards on classes of the program that were met: they have to behave as they did.

What an object does is what the functions and descriptors of its class say, those of the bases, and for a class itself
those of its metaclass.  Evaluation asks for them in many places, and mostly finds that there are none.  So one guard
per class says that the order of its bases is the same, and that no class of that order has got, lost or replaced a
member by a name that was asked for.  Members that mean nothing but themselves are guarded where they are read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from capture.errors import Location
from capture.guards.guard import Guard
from capture.guards.kinds import GuardKind
from capture.values.base import is_fixed, module_name

_UNARY = "abs bool bytes ceil complex dir float floor hash index int invert iter len length_hint neg next pos repr "
_UNARY += "reversed round sizeof str trunc fspath format hash contains call await aiter anext enter exit aenter aexit"
_BINARY = "add and divmod floordiv lshift matmul mod mul or pow rshift sub truediv xor"
_COMPARED = "eq ge gt le lt ne"
_ITEMS = "getitem setitem delitem missing"
_ATTRIBUTES = "getattr getattribute setattr delattr get set delete dict slots class"
_CLASSES = (
    "new init del class_getitem init_subclass instancecheck subclasscheck subclasshook match_args mro_entries prepare"
)
_COPIES = "copy deepcopy replace reduce reduce_ex getstate setstate getnewargs getnewargs_ex"
_TENSORS = "torch_function torch_dispatch array array_ufunc array_function array_priority"

SPECIAL = tuple(
    sys.intern(f"__{name}__")
    for name in (
        *(_UNARY + " " + _COMPARED + " " + _ITEMS).split(),
        *(prefix + name for name in _BINARY.split() for prefix in ("", "r", "i")),
        *f"{_ATTRIBUTES} {_CLASSES} {_COPIES} {_TENSORS}".split(),
    )
)
"""The names that Python, or torch, looks up by itself."""


class ReliedClasses:
    """The program's classes that an evaluation met, where it met them first, and the names that it asked them for."""

    def __init__(self, location: Callable[[], Location | None]) -> None:
        self._location = location
        self._met: dict[int, tuple[type, Location | None, dict[str, None]] | None] = {}
        self._fixed: list[type] = []  # kept alive, so that their addresses stay their own

    def add(self, cls: type) -> None:
        self._names(cls)

    def add_name(self, cls: type, name: str) -> None:
        names = self._names(cls)
        if names is not None and type(name) is str:
            names[name] = None

    def _names(self, cls: type) -> dict[str, None] | None:
        # Relying on a class relies on its metaclass as well, which answers for the class's own attributes.
        if id(cls) not in self._met:
            self._meet(cls)
        found = self._met[id(cls)]
        return None if found is None else found[2]

    def _meet(self, cls: type) -> None:
        """Notes a class where it is met first; one that is taken as fixed is noted as needing no guard."""
        if is_fixed(cls):
            self._met[id(cls)] = None
            self._fixed.append(cls)
            return
        self._met[id(cls)] = cls, self._location(), {}
        self._names(type(cls))

    def guards(self, made_here: Callable[[type], bool]) -> Iterator[Guard]:
        """One guard for each class of the program's; none for those that the captured code makes itself."""
        for cls, location, names in filter(None, self._met.values()):
            if made_here(cls):
                continue
            # Members of fixed bases do not change; special names are always watched, and kept apart as they are the
            # same for all.
            watched = tuple(base for base in type.__getattribute__(cls, "__mro__") if not is_fixed(base))
            others = tuple(name for name in names if name not in _SPECIAL)
            name = type.__getattribute__(cls, "__qualname__")
            text = f"the class `{module_name(cls)}.{name}` behaves as it did"
            yield Guard(None, GuardKind.CLASS, ((), (cls, watched, SPECIAL, others), None), location, text)

    def clear(self) -> None:
        self._met.clear()
        self._fixed.clear()


_SPECIAL = frozenset(SPECIAL)
