"""Contents of code, functions, classes and modules as digests: equal digests in two processes mean the same program.

What of an object is told is what evaluation may rely on without a guard: code, defaults, the variables of closures, the
members of classes.  Where something has no content that another process could compare, ``NotStored`` says so.
Must not know versions, guards or sources.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import json
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)

import torch

Content = object
"""Anything that ``json`` can write."""

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: no program can give such a class another member
_PLAIN = (int, bool, str, type(None))
_NAMED = (torch.dtype, torch.layout, torch.memory_format, torch.device)
OF_C = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType)
_SAY_NOTHING = (
    *("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__abstractmethods__", "_abc_impl"),
    *("__parameters__", "__firstlineno__", "__static_attributes__", "__annotate__", "__annotations_cache__"),
    "__orig_bases__",
)
_WRAPPERS = (staticmethod, classmethod)


class NotStored(Exception):
    """Raised where a version has no stored form; says why, in a sentence."""


def digest(content: Content) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class Contents:
    """Digests of the objects of one process at one moment, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, str]] = {}

    def of(self, obj: object) -> str:
        known = self._known.get(id(obj))
        if known is None:
            self._known[id(obj)] = known = obj, digest(self._described(obj))
        return known[1]

    def _described(self, obj: object) -> Content:
        if isinstance(obj, CodeType):
            return code(obj)
        if type(obj) is FunctionType:
            return self.function(obj)
        if issubclass(type(obj), type):
            return self._of_class(obj)  # type: ignore[arg-type]
        return self.shallow(obj)

    def at_a_path(self, obj: object) -> str:
        """The digest of an object that is relied on as the one on a path; what a dict holds is guarded."""
        if type(obj) is not dict:
            return self.of(obj)
        return digest([[self._member(key), self._member(value)] for key, value in obj.items()])

    # -- functions ---------------------------------------------------------------------------------------------------

    def function(self, function: FunctionType) -> Content:
        """A function's code, the defaults of its parameters, and what its closure holds."""
        defaults = [self._member(each) for each in function.__defaults__ or ()]
        named = sorted((name, self._member(each)) for name, each in (function.__kwdefaults__ or {}).items())
        closure = [self._of_cell(cell) for cell in function.__closure__ or ()]
        place = function.__globals__.get("__name__"), function.__qualname__
        return ["function", str(place), self._code(function.__code__), defaults, named, closure]

    def _code(self, of: CodeType) -> str:
        return self.of(of)

    def _of_cell(self, cell: object) -> Content:
        try:
            held = cell.cell_contents  # type: ignore[attr-defined]
        except ValueError:
            return ["empty"]
        return self._member(held)

    # -- classes -----------------------------------------------------------------------------------------------------

    def _of_class(self, cls: type) -> Content:
        """Every member of every class in the order of its bases: what C made for good is known by its name."""
        order: tuple[type, ...] = type.__getattribute__(cls, "__mro__")
        of_classes: tuple[type, ...] = type.__getattribute__(type(cls), "__mro__")
        return ["class", *map(self._own, order + of_classes)]

    def _own(self, cls: type) -> Content:
        name = class_name(cls)
        if cls.__flags__ & _IMMUTABLE:
            return name
        return [name, self.members(cls)]

    def members(self, cls: type) -> str:
        """The digest of what a class itself defines."""
        key = -id(cls)
        known = self._known.get(key)
        if known is None:
            own = type.__getattribute__(cls, "__dict__")
            members = sorted((str(name), self._member(each)) for name, each in own.items() if name not in _SAY_NOTHING)
            self._known[key] = known = cls, digest(members)
        return known[1]

    def _member(self, obj: object) -> Content:
        """The content of a member; other data is told by its type, as what is read of it is guarded."""
        cls = type(obj)
        if cls is FunctionType:
            return self._of_function_once(obj)
        if cls in _WRAPPERS:
            return [cls.__name__, self._member(obj.__func__)]  # type: ignore[attr-defined]
        if cls is property:
            return ["property", *(self._member(getattr(obj, part)) for part in ("fget", "fset", "fdel"))]
        if cls is functools.cached_property:
            return ["cached", self._member(obj.func)]  # type: ignore[attr-defined]
        try:
            return self.shallow(obj)
        except NotStored:
            return ["a", class_name(cls)]

    def _of_function_once(self, function: object) -> Content:
        """The digest of a function, which may be met again within itself."""
        known = self._known.get(id(function))
        if known is None:
            self._known[id(function)] = function, "recursive"
            self._known[id(function)] = known = function, digest(self.function(function))  # type: ignore[arg-type]
        return known[1]

    # -- anything ----------------------------------------------------------------------------------------------------

    def shallow(self, obj: object) -> Content:
        """A value by what it is, a function by its code, a class or module by its name; nothing else."""
        cls = type(obj)
        if cls in _PLAIN:
            return [cls.__name__, repr(obj)]
        if cls in (float, complex, bytes):
            return [cls.__name__, repr(obj)]
        if cls in (tuple, list, torch.Size):
            return [cls.__name__, *(self.shallow(each) for each in obj)]  # type: ignore[attr-defined]
        if cls is dict:
            return ["dict", *([self.shallow(key), self.shallow(each)] for key, each in obj.items())]  # type: ignore[attr-defined]
        if cls in (set, frozenset):
            return [cls.__name__, *sorted(json.dumps(self.shallow(each)) for each in obj)]  # type: ignore[attr-defined]
        if cls is FunctionType:
            return self._of_function_once(obj)
        if cls is CodeType:
            return self.of(obj)
        if cls is functools._lru_cache_wrapper:
            return ["remembers", self._member(obj.__wrapped__)]  # type: ignore[attr-defined]
        if issubclass(cls, type):
            return ["class", class_name(obj)]  # type: ignore[arg-type]
        if issubclass(cls, ModuleType):
            # By its own dictionary: a module may answer for its attributes by code.
            of = ModuleType.__getattribute__(obj, "__dict__")
            return ["module", str(of.get("__name__")), str(of.get("__file__"))]
        if isinstance(obj, MethodType):
            return ["method", self.shallow(obj.__func__), class_name(type(obj.__self__))]
        if cls in OF_C:
            return self._of_c(obj)
        if cls in _NAMED or obj is ... or obj is NotImplemented:
            return [cls.__name__, repr(obj)]
        if issubclass(cls, enum.Enum):
            return ["member", class_name(cls), obj._name_, repr(obj._value_)]  # type: ignore[attr-defined]
        raise NotStored(f"there is {_words(obj)}, whose content cannot be compared")

    def _of_c(self, obj: object) -> Content:
        owner = getattr(obj, "__self__", None) or getattr(obj, "__objclass__", None)
        if isinstance(owner, ModuleType):
            of = str(owner.__name__)
        else:
            of = class_name(owner if isinstance(owner, type) else type(owner))
        return ["c", type(obj).__name__, str(obj.__name__), of]  # type: ignore[attr-defined]


def code(of: CodeType) -> Content:
    """The content of a code object, with its file and its lines, which exceptions and reports tell."""
    return [
        [of.co_filename, of.co_qualname, of.co_firstlineno, of.co_argcount, of.co_posonlyargcount],
        [of.co_kwonlyargcount, of.co_flags, of.co_code.hex(), of.co_linetable.hex(), of.co_exceptiontable.hex()],
        [list(of.co_names), list(of.co_varnames), list(of.co_freevars), list(of.co_cellvars)],
        [_constant(each) for each in of.co_consts],
    ]


def _constant(value: object) -> Content:
    if isinstance(value, CodeType):
        return code(value)
    if isinstance(value, tuple):
        return ["tuple", *map(_constant, value)]
    if isinstance(value, frozenset):
        return ["frozenset", *sorted(json.dumps(_constant(each)) for each in value)]
    return [type(value).__name__, repr(value)]


def class_name(cls: type) -> str:
    found = type.__getattribute__(cls, "__dict__").get("__module__")
    return f"{found if isinstance(found, str) else 'builtins'}.{type.__getattribute__(cls, '__qualname__')}"


def _words(obj: object) -> str:
    return f"an object of class `{class_name(type(obj))}`"
