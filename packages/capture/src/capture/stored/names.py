"""Objects by name: ``module`` and ``qualname`` lead to a function, class or module, whose content is what it was.

A name is followed without running code of the program: through dictionaries of modules and classes, the functions
within properties and static methods, and what decorators say they wrap.  Nothing is imported.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Iterator
from types import FunctionType, ModuleType

from capture.stored.contents import OF_C, Contents, NotStored, class_name

Name = tuple[str, str, int]
"""A module, a path in it, and which of the objects found there it is; without a path the module, or its class."""

# Functions of C often name another module than the one that they are found in.
_HOMES = ("torch", "torch._C._VariableFunctions", "torch._C._nn", "torch._C", "torch.nn.functional", "builtins")

_OF_CODE = (FunctionType, type, functools._lru_cache_wrapper, *OF_C)
_LIBRARIES = sys.stdlib_module_names - {"builtins", "__main__"} | {"capture", "torch"}


def name_of(obj: object) -> Name | None:
    """The name that leads to this very object; None: no name does."""
    if isinstance(obj, ModuleType):
        name = ModuleType.__getattribute__(obj, "__dict__").get("__name__")
        return (name, "", 0) if isinstance(name, str) and sys.modules.get(name) is obj else None
    if not isinstance(obj, _OF_CODE):
        return _of_its_module(obj)  # it may answer for its attributes by code of the program
    path = getattr(obj, "__qualname__", None)
    plain = getattr(obj, "__name__", None)
    home = getattr(obj, "__module__", None)
    owner = getattr(obj, "__objclass__", None)
    if isinstance(owner, type) and isinstance(plain, str):
        home, path = owner.__module__, f"{owner.__qualname__}.{plain}"
    homes = (home, *_HOMES) if not isinstance(obj, FunctionType) else (home,)
    for module in homes:
        for text in dict.fromkeys((path, plain)):
            if isinstance(module, str) and isinstance(text, str):
                for number, found in enumerate(_found(module, text)):
                    if found is obj:
                        return module, text, number
    if isinstance(obj, type) and home == "builtins":  # classes of C's that have a name in ``types`` alone
        return next((("types", name, 0) for name, each in vars(types).items() if each is obj), None)
    if isinstance(obj, type) and issubclass(obj, ModuleType):
        of_class = (name for name, module in list(sys.modules.items()) if type(module) is obj)
        return next(((name, "", 1) for name in of_class), None)
    return None


def _of_its_module(obj: object) -> Name | None:
    """A sentinel: the only object of its class, held by a module of torch or the standard library."""
    home = class_name(type(obj)).rpartition(".")[0]
    if home.partition(".")[0] not in _LIBRARIES or home not in sys.modules:
        return None
    held = ModuleType.__getattribute__(sys.modules[home], "__dict__")
    return next(((home, name, 0) for name, each in list(held.items()) if each is obj), None)


def _of_a_table(obj: object, said: str) -> Name | None:
    """The name of a dict of the standard library, or of torch, of which guards tell what is in it."""
    module, _, path = said.rpartition(".")
    is_one = type(obj) is dict and module.partition(".")[0] in _LIBRARIES and module in sys.modules
    return (module, path, 0) if is_one and next(_found(module, path), None) is obj else None


def named(name: Name) -> object:
    """The object that the name leads to now."""
    module, path, number = name
    if not path:
        return type(_module(module)) if number else _module(module)
    for position, found in enumerate(_found(module, path)):
        if position == number:
            return found
    raise NotStored(f"there is no `{module}.{path}`")


def _module(name: str) -> object:
    """The module, which has to be there already."""
    found = sys.modules.get(name)
    if found is None and name.startswith("torch._C."):
        found = functools.reduce(getattr, name.split(".")[2:], sys.modules["torch._C"])
    if found is None:
        raise NotStored(f"the module `{name}` is not imported")
    return found


def _found(module: str, path: str) -> Iterator[object]:
    """The object at the end of the path, and those that it wraps."""
    try:
        found: object = _module(module)
        for step in path.split("."):
            found = _members(found)[step]
    except (NotStored, KeyError, TypeError, AttributeError):
        return
    seen: set[int] = set()
    waiting = [found]
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen or found is None:
            continue
        seen.add(id(found))
        yield found
        waiting += _within(found)


def _members(owner: object) -> dict[str, object]:
    """The dictionary of a class or module, read past any code that answers for its attributes."""
    if isinstance(owner, type):
        return type.__getattribute__(owner, "__dict__")
    return dict(vars(owner)) if not isinstance(owner, ModuleType) else ModuleType.__getattribute__(owner, "__dict__")


def _within(found: object) -> list[object]:
    """The functions that a descriptor or a decorator holds."""
    if isinstance(found, (staticmethod, classmethod)):
        return [found.__func__]
    if isinstance(found, property):
        return [found.fget, found.fset, found.fdel]
    if isinstance(found, functools.cached_property):
        return [found.func]
    if isinstance(found, FunctionType):
        return [found.__dict__.get("__wrapped__"), *(_held(cell) for cell in found.__closure__ or ())]
    return []


def _held(cell: object) -> object:
    """A function in a closure; of other objects nothing is told."""
    try:
        held: object = cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return None
    return held if isinstance(held, FunctionType) else None


class NamesWritten:
    """The names that a version refers to, each once, with the content of what they lead to."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.whole: frozenset[int] = frozenset()
        """The identities of tables that were looked at as a whole, of which no guard tells what is in them."""
        self._places: dict[int, int] = {}
        self.objects: list[object] = []
        self.classes: dict[type, None] = {}
        """In which functions are looked for that are known by no name of their own."""
        self.rows: list[list[object]] = []

    def place(self, obj: object, said: str = "") -> int | None:
        """The place of an object in the table; None if no name leads to it.

        ``said`` is what a path calls it, which may be its name.
        """
        known = self._places.get(id(obj))
        if known is None:
            name = name_of(obj) or self._member(obj) or (None if id(obj) in self.whole else _of_a_table(obj, said))
            if name is None:
                return None
            known = self._places[id(obj)] = len(self.rows)
            self.objects.append(obj)
            self.rows.append([*name, _content(obj, self.contents)])
        return known

    def _member(self, obj: object) -> Name | None:
        """The name of a function that was put into a class under another one than its own, as what optimizers wrap
        their `step` in."""
        for cls in self.classes if type(obj) is FunctionType else ():
            module, path, place = name_of(cls) or ("", "", 1)
            for inner in [f"{path}.{name}" for name in _members(cls)] if not place else ():
                for number, found in enumerate(_found(module, inner)):
                    if found is obj:
                        return module, inner, number
        return None


def _content(obj: object, contents: Contents) -> str:
    """The content that a version relies on; of a sentinel, only which it is, and of which class."""
    return contents.of(obj) if isinstance(obj, (*_OF_CODE, ModuleType)) else class_name(type(obj))


def names_read(rows: list[list[object]], contents: Contents) -> list[object]:
    """The objects of a table; one that is not there or differs raises ``NotStored``."""
    found = []
    for module, path, number, content in rows:
        obj = named((str(module), str(path), int(number)))  # type: ignore[call-overload]
        if _content(obj, contents) != content:
            raise NotStored(f"`{module}{'.' if path else ''}{path}` is another one than it was")
        found.append(obj)
    return found
