"""Values, sources and guards as JSON, both ways.

    plain values      themselves, or tagged: ["t", items...] is a tuple, ["f", hex] a float
    objects           ["n", k]: what the k-th name of the version leads to
    on a path         ["at", source, content]: what that source leads to now, if its content is what it was
    sources           ["s", k]: the k-th of the version's table, whose rows refer to rows before them

What has no form raises ``NotStored``.
"""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import torch

from capture.errors import Location
from capture.guards import sources
from capture.guards.decided import decided
from capture.guards.guard import Guard
from capture.guards.sources import DictSource, Inputs, KeySource, Source
from capture.stored.contents import Contents, NotStored, class_name
from capture.stored.names import NamesWritten

Data = Any
"""Anything that ``json`` reads and writes."""

_AS_THEY_ARE = (bool, int, type(None))
_SEQUENCES: dict[type, str] = {tuple: "t", torch.Size: "S", list: "l"}
_OF_TORCH = (torch.dtype, torch.layout, torch.memory_format)
_SOURCES: dict[str, tuple[str, ...]] = {
    "ArgSource": ("index", "name"),
    "ClosureSource": ("index", "name"),
    "CellSource": ("index", "name"),
    "GlobalSource": ("name",),
    "ConstSource": ("obj", "name"),
    "CallSource": ("function", "name"),
    "AttrSource": ("parent", "name"),
    "DictSource": ("parent",),
    "TypeSource": ("parent",),
    "KeySource": ("parent", "key"),
    "HiddenEntrySource": ("parent", "key"),
    "ItemSource": ("parent", "index"),
    "ShownSource": ("parent",),
    "MadeSource": ("parent", "function"),
    "NumberSource": ("number",),
    "FormulaSource": ("function", "operands", "text"),
    "StorageSource": ("parent", "key", "base_class"),
    "GetitemSource": ("parent", "key"),
}
_CHECKED_ON_THE_PATH = ("is",)
_TABLES = ("_parameters", "_buffers", "_modules")
"""The tables in which modules keep what is no plain attribute."""


class DataWriter:
    """Writes one version's values; keeps its tables of names and sources."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.names = NamesWritten(contents)
        self.paths: list[Data] = []
        self._places: dict[Source, int] = {}
        self._texts: dict[int, tuple[int, str]] = {}
        self.found_on_paths: list[CodeType] = []
        """Code whose content is compared at the place where it is found."""

    def write(self, obj: Any) -> Data:
        cls = type(obj)
        if cls in _AS_THEY_ARE:
            return obj
        if cls is str:
            return self._text(obj)
        # In hexadecimal, which has all digits, and names NaN and the infinities.
        if cls is float:
            return ["f", obj.hex()]
        if cls is complex:
            return ["c", obj.real.hex(), obj.imag.hex()]
        if cls is bytes:
            return ["b", obj.hex()]
        if cls in _SEQUENCES:
            return [_SEQUENCES[cls], *map(self.write, obj)]
        if cls is slice:
            return ["slice", *map(self.write, (obj.start, obj.stop, obj.step))]
        if cls is range:
            return ["range", obj.start, obj.stop, obj.step]
        if cls in _OF_TORCH:
            return ["torch", str(obj).removeprefix("torch.")]
        if cls is torch.device:
            return ["device", str(obj)]
        if obj is ... or obj is NotImplemented:
            return ["constant", repr(obj)]
        # By its row in the table: no name leads to an object of ours.
        if issubclass(cls, Source):
            return ["s", self.path(obj)]
        if cls is functools.partial:
            return ["p", *map(self.write, (obj.func, obj.args, list(obj.keywords.items())))]
        return self._object(obj)

    def _text(self, text: str) -> Data:
        """A text; equal texts that are two objects stay two."""
        if sys.intern(text) is text:
            return text
        number = self._texts.setdefault(id(text), (len(self._texts), text))[0]
        return ["text", number, text]

    def _object(self, obj: Any) -> Data:
        """An object by its name, or as a member of its enum."""
        if issubclass(type(obj), enum.Enum) and type(obj).__members__.get(obj._name_) is obj:
            return ["member", self.write(type(obj)), obj._name_]
        place = self.names.place(obj)
        if place is None:
            raise NotStored(f"no name leads to {_words(obj)}")
        return ["n", place]

    # -- sources -----------------------------------------------------------------------------------------------------

    def path(self, source: Source) -> int:
        """The number of a source in the table, which its parents are in before it."""
        known = self._places.get(source)
        if known is None:
            kind = type(source).__name__
            if kind not in _SOURCES:
                raise NotStored(f"`{source.expression()}` is found by an object's identity")
            row = [kind, *(self.write(getattr(source, name)) for name in _SOURCES[kind])]
            known = self._places[source] = len(self.paths)
            self.paths.append(row)
        return known

    # -- guards ------------------------------------------------------------------------------------------------------

    def guard(self, guard: Guard) -> Data:
        source = None if guard.source is None else self.path(guard.source)
        payload = self._payload(guard)
        return [source, guard.kind, payload, location_written(guard.location), guard.text]

    def _payload(self, guard: Guard) -> Data:
        """The payload of a guard; an object without a name is told by the path on which the guard finds it."""
        if guard.kind == "type" and issubclass(guard.payload[0], (set, frozenset)):
            raise NotStored(f"{guard.sentence()}, whose order is another one in each process")
        if guard.kind in _CHECKED_ON_THE_PATH and guard.source is not None:
            obj = guard.payload[0]
            if type(obj) in (FunctionType, CodeType) and self.names.place(obj) is None:
                if type(obj) is CodeType:
                    self.found_on_paths.append(obj)
                return [["at", self.path(guard.source), self.contents.of(obj)]]
        payload = guard.payload
        if guard.kind == "condition":  # its program says all that its function does
            paths, program, _ = payload
            payload = paths, program, functools.partial(decided, paths, program)
        return [self.write(each) for each in payload]


class DataReader:
    """Reads one version's values for a call."""

    def __init__(self, names: Sequence[object], rows: Sequence[Data], contents: Contents, inputs: Inputs) -> None:
        self.names = names
        self.contents = contents
        self.inputs = inputs
        self.paths: list[Source] = []
        self._texts: dict[int, str] = {}
        for kind, *fields in rows:
            named = dict(zip(_SOURCES[kind], map(self.read, fields), strict=True))
            self.paths.append(getattr(sources, kind)(**named))

    def read(self, data: Data) -> Any:
        if type(data) is str:
            return sys.intern(data)  # as the names in code are, and what dictionaries are asked for by
        if type(data) is not list:
            return data
        return _READERS[data[0]](self, *data[1:])

    def guard(self, data: Data) -> Guard:
        source, kind, payload, location, text = data
        found = None if source is None else self.paths[source]
        return Guard(found, sys.intern(kind), tuple(map(self.read, payload)), location_read(location), text)

    def refuse_hidden(self) -> None:
        """Refuses, once guards hold, where a module's own dictionary hides a parameter or submodule.

        Nobody hides one of a module that was called before, so no guard looks; before the first call somebody may
        have.
        """
        for path in self.paths:
            table = getattr(path, "parent", None)
            if isinstance(path, KeySource) and isinstance(table, KeySource) and table.key in _TABLES:
                own = table.parent.read(self.inputs) if isinstance(table.parent, DictSource) else {}
                if path.key in own and path.key in table.read(self.inputs):  # a path may lead to what is not there
                    raise NotStored(f"`{path.expression()}` is hidden by an attribute of its own")

    def _text(self, number: int, text: str) -> str:
        """The one object for a text of this number: another one than any equal text."""
        return self._texts.setdefault(number, "".join(list(text)))

    def _at(self, place: int, content: str) -> object:
        """The object on a path, if it is a function or code of the content that it had."""
        source = self.paths[place]
        try:
            found = source.read(self.inputs)
        except (LookupError, AttributeError, ValueError, TypeError):
            raise NotStored(f"there is no `{source.expression()}` now") from None
        if type(found) not in (FunctionType, CodeType) or self.contents.of(found) != content:
            raise NotStored(f"`{source.expression()}` is another one than it was")
        return found


def _of_torch(_: DataReader, name: str) -> object:
    found = getattr(torch, name)
    if not isinstance(found, _OF_TORCH):
        raise NotStored(f"torch has no dtype or layout `{name}`")
    return found


_READERS: dict[str, Callable[..., Any]] = {
    "text": DataReader._text,
    "f": lambda _, text: float.fromhex(text),
    "c": lambda _, real, imaginary: complex(float.fromhex(real), float.fromhex(imaginary)),
    "b": lambda _, text: bytes.fromhex(text),
    "t": lambda reader, *items: tuple(map(reader.read, items)),
    "S": lambda reader, *items: torch.Size(map(reader.read, items)),
    "l": lambda reader, *items: list(map(reader.read, items)),
    "slice": lambda reader, *parts: slice(*map(reader.read, parts)),
    "range": lambda _, *parts: range(*parts),
    "torch": _of_torch,
    "device": lambda _, text: torch.device(text),
    "constant": lambda _, text: {"Ellipsis": ..., "NotImplemented": NotImplemented}[text],
    "s": lambda reader, place: reader.paths[place],
    "p": lambda reader, function, args, named: functools.partial(
        reader.read(function), *reader.read(args), **dict(reader.read(named))
    ),
    "member": lambda reader, cls, name: reader.read(cls)[name],
    "n": lambda reader, place: reader.names[place],
    "at": lambda reader, place, content: reader._at(place, content),
}


def location_written(location: Location | None) -> Data:
    return None if location is None else [location.filename, location.line, location.function]


def location_read(data: Data) -> Location | None:
    return None if data is None else Location(*data)


def _words(obj: object) -> str:
    name = getattr(obj, "__qualname__", None)
    return f"`{name}`" if isinstance(name, str) else f"an object of class `{class_name(type(obj))}`"
