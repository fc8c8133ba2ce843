"""The transformed code as data, both ways: its instructions as ``marshal`` writes them, its constants one by one.

Among the constants are the compiled graph, which the backend describes, objects of ours that this one version shares
(who starts over, what is expected of results), and continuations, which are known by where they begin.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch

from capture._engine import Guards, Outside, Uninterrupted
from capture.bytecode.emitter import Constant
from capture.bytecode.resume import Continuations, Point, Slot
from capture.errors import Location
from capture.guards.guard import Guard, to_spec
from capture.log import BreakRecord, Log
from capture.reasons import Kind, Reason
from capture.recording.draws import states_of
from capture.recording.library_modes import PuttingModesBack
from capture.recording.rollback import Undoing
from capture.stored.contents import NotStored
from capture.stored.data import Data, DataReader, DataWriter
from capture.values.parameters import all_positional
from capture.writing.restart import Failures, Unraised
from capture.writing.results import Expected

_STATES = states_of(()).__code__


@dataclass(frozen=True, slots=True)
class Parts:
    """The objects that one version's code holds besides plain constants."""

    compiled: Callable[..., object] | None = None
    """The compiled graph, as the backend gave it."""
    called: Callable[..., object] | None = None
    """The compiled graph with what takes an error's writes back."""
    failures: Failures | None = None
    expected: Expected | None = None
    drawn_on: frozenset[torch.device] = frozenset()
    tell_loss: Callable[[], None] | None = None
    looked_at: tuple[tuple[Guards, tuple[Guard, ...]], ...] = ()
    """The guards that the code asks the engine about before it writes."""
    log: Log | None = None
    """The log that is told, where the code is read."""
    nopython: bool = False


class CodeWriter:
    """Writes a transformed code object, constant by constant."""

    def __init__(self, data: DataWriter, frame: CodeType, parts: Parts, continuations: Continuations) -> None:
        self.data = data
        self.frame = frame
        self.parts = parts
        self.continuations = continuations

    def write(self, code: CodeType) -> Data:
        # ``marshal`` would refuse our constants: they are written one by one.
        bare = code.replace(co_consts=())
        return [marshal.dumps(bare).hex(), [self._constant(each) for each in code.co_consts]]

    def _constant(self, value: Any) -> Data:
        """A constant as data, by what it is to the version."""
        cls = type(value)
        if cls is CodeType:
            return self._code(value)
        if cls is Outside:
            return self._outside(value)
        if cls is Constant:
            return ["held", self._constant(value.value)]
        if cls is Uninterrupted:
            return self._uninterrupted(value.function)
        if cls is Unraised:
            return ["unraised", *record_written(value.record)]
        # Objects of ours are known by being parts of this version: made anew, they are shared in the same way.
        if value is not None and value is self.parts.tell_loss:
            return ["loss"]
        if cls is MethodType:
            return self._method(value)
        if cls is FunctionType and value.__code__ is _STATES:
            return ["states", *sorted(map(str, self.parts.drawn_on))]
        return ["plain", self.data.write(value)]

    def _code(self, code: CodeType) -> Data:
        """A code object among the constants: the frame's own, a continuation, or a function of the program's."""
        # The frame's code is what the version is asked for: it is there.
        if code == all_positional(self.frame):
            return ["frame"]
        point = self.continuations.point_of(code)
        if point is None:
            return ["code", code_written(code)]
        return ["continuation", *point_written(point)]

    def _outside(self, outside: Outside) -> Data:
        if outside.callable is self.parts.called:
            return ["graph"]
        return ["outside", self.data.write(outside.callable)]

    def _uninterrupted(self, function: Any) -> Data:
        asked = getattr(function, "__self__", None)
        for guards, made_of in self.parts.looked_at:
            if guards is asked:
                return ["look", *map(self.data.guard, made_of)]
        return ["uninterrupted", None if function is None else self.data.write(function)]

    def _method(self, method: MethodType) -> Data:
        if method.__self__ is self.parts.failures and method.__self__ is not None:
            return ["failures", method.__name__]
        if method.__self__ is self.parts.expected and method.__self__ is not None:
            return ["expected", method.__name__]
        raise NotStored(f"its code holds `{method.__qualname__}` of an object")


def record_written(record: BreakRecord) -> list[Data]:
    at, why = record.location, record.reason
    return [at.filename, at.line, at.function, why.kind.name, why.explanation, why.hint]


def record_read(data: Sequence[Data]) -> BreakRecord:
    filename, line, function, kind, explanation, hint = data
    return BreakRecord(Location(filename, line, function), Reason(Kind[kind], explanation, hint))


def code_written(code: CodeType) -> str:
    try:
        return marshal.dumps(code).hex()
    except ValueError:
        raise NotStored(f"`{code.co_qualname}` holds an object that is no plain constant") from None


def point_written(point: Point) -> list[Data]:
    return [point.index, [slot.name for slot in point.stack], sorted(point.bound), sorted(point.with_finalizers)]


def point_read(index: int, stack: Iterable[str], bound: Iterable[str], with_finalizers: Iterable[str]) -> Point:
    return Point(index, tuple(Slot[name] for name in stack), frozenset(bound), frozenset(with_finalizers))


# -- what the backend gave -----------------------------------------------------------------------------------------


def called_written(parts: Parts) -> Data:
    """The way in which an error's writes and modes are taken back around the compiled graph."""
    called, compiled = parts.called, parts.compiled
    promises = bool(getattr(compiled, "all_or_nothing", False))
    undone = modes = None
    if isinstance(called, Undoing):
        undone, called = [list(places) for places in called.places], called.compiled
    if isinstance(called, PuttingModesBack):
        modes, called = list(called.devices), called.compiled
    assert called is compiled
    return [promises, undone, modes]


def called_read(compiled: Callable[..., object], data: Data) -> Callable[..., object]:
    promises, undone, modes = data
    if promises and not getattr(compiled, "all_or_nothing", False):
        raise NotStored("what the backend took up no longer takes back what it wrote before an error")
    called = compiled if modes is None else PuttingModesBack(compiled, modes)
    return called if undone is None else Undoing(called, *undone)


# -- back ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CodeReader:
    """Makes the code object again, from its instructions and its constants."""

    data: DataReader
    frame: CodeType
    parts: Parts
    continuations: Continuations

    def read(self, written: Data) -> CodeType:
        text, constants = written
        bare = marshal.loads(bytes.fromhex(text))
        assert isinstance(bare, CodeType)
        return bare.replace(co_consts=tuple(map(self._constant, constants)))

    def _constant(self, data: Data) -> Any:
        kind, *rest = data
        return _READERS[kind](self, *rest)

    def _continuation(self, *point: Any) -> CodeType:
        """The continuation at that point, made here: the same one that captured code of this process would lead to."""
        return self.continuations(self.continuations.original(self.frame).code, point_read(*point)).code


def _look(reader: CodeReader, *rows: Data) -> Uninterrupted:
    return Uninterrupted(Guards(*to_spec(map(reader.data.guard, rows))).check)


def _unraised(reader: CodeReader, *record: Data) -> Unraised:
    assert reader.parts.log is not None
    return Unraised(reader.parts.log, reader.parts.nopython, record_read(record))


def _graph(reader: CodeReader) -> Outside:
    assert reader.parts.called is not None
    return Outside(reader.parts.called)


_READERS: Mapping[str, Callable[..., Any]] = {
    "plain": lambda reader, data: reader.data.read(data),
    "frame": lambda reader: all_positional(reader.frame),
    "code": lambda _, text: marshal.loads(bytes.fromhex(text)),
    "continuation": CodeReader._continuation,
    "graph": _graph,
    "outside": lambda reader, data: Outside(reader.data.read(data)),
    "held": lambda reader, data: Constant(reader._constant(data)),
    "uninterrupted": lambda reader, data: Uninterrupted(None if data is None else reader.data.read(data)),
    "look": _look,
    "unraised": _unraised,
    "loss": lambda reader: reader.parts.tell_loss,
    "failures": lambda reader, name: getattr(reader.parts.failures, name),
    "expected": lambda reader, name: getattr(reader.parts.expected, name),
    "states": lambda _, *devices: states_of(map(torch.device, devices)),
}
