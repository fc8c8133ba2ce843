"""The ledger: what compiling did, as data, one for each compiled function.  Reports, logs and pages only render it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

import capture
import inductor
from compile_api.memory import Written


@dataclass(frozen=True, slots=True)
class Kernel:
    """One generated kernel: its name, the file a person can read, and the operators that went into it."""

    name: str
    path: str | None
    operators: tuple[str, ...]
    source: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class GraphCompiled:
    """An ATen graph went through a code generator.  ``seconds`` is the time by stage, ``fallbacks`` the operators that
    run as torch's own kernels though they could have been generated, each with the reason in ``fallback_reasons``."""

    direction: str
    nodes: int
    kernels: tuple[Kernel, ...]
    library_calls: tuple[str, ...]
    fallbacks: tuple[str, ...]
    seconds: tuple[tuple[str, float], ...]
    fallback_reasons: tuple[str, ...] = ()
    written: Written = field(default_factory=Written)
    graph: str = field(repr=False, default="")
    schedule: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class GraphCaptured:
    """A torch-level graph was handed to a backend, which took ``seconds`` for it."""

    backend: str
    operators: tuple[str, ...]
    seconds: float
    graph: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class LayersShared:
    """A stack of equal layers of a graph, each of so many operators, that were traced and compiled once."""

    layers: int
    operators: int


@dataclass(frozen=True, slots=True)
class GraphRefused:
    """A stage could not take a graph, which therefore runs a slower way."""

    stage: str
    reason: str
    consequence: str


@dataclass(frozen=True, slots=True)
class GraphInaccurate:
    """A compiled graph computed something else than eager; ``operator`` is the first one that is off.

    Where it is a backward, ``missing`` names the inputs whose gradients it leaves out.
    """

    operator: str
    location: str
    error: float
    eager_error: float
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({self.location})" if self.location else ""
        if self.missing:
            return f"{self.operator}{where} leaves out the gradients of {', '.join(self.missing)}"
        return (
            f"first off at {self.operator}{where}: largest error {self.error:.3g} where eager's is "
            f"{self.eager_error:.3g}, against a float64 reference"
        )


Record: TypeAlias = GraphCaptured | GraphCompiled | LayersShared | GraphRefused | GraphInaccurate
Subscriber: TypeAlias = Callable[[Record], None]


@dataclass
class Ledger:
    """An append-only list of records, beside the log that capture keeps; several threads may compile at once."""

    frames: capture.Log = field(default_factory=capture.Log)
    _records: list[Record] = field(default_factory=list)
    _subscribers: list[Subscriber] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, record: Record) -> None:
        """Appends a record and tells those who follow the ledger."""
        with self._lock:
            self._records.append(record)
        # Outside of the lock: who is told may read the ledger.
        for subscriber in self._subscribers:
            subscriber(record)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls ``subscriber`` with every later record of this ledger."""
        self._subscribers.append(subscriber)

    def records(self) -> tuple[Record, ...]:
        with self._lock:
            return tuple(self._records)

    def compiled(self) -> tuple[GraphCompiled, ...]:
        return tuple(record for record in self.records() if isinstance(record, GraphCompiled))

    def captured(self) -> tuple[GraphCaptured, ...]:
        return tuple(record for record in self.records() if isinstance(record, GraphCaptured))

    def layers_shared(self) -> tuple[LayersShared, ...]:
        return tuple(record for record in self.records() if isinstance(record, LayersShared))

    def refused(self) -> tuple[GraphRefused, ...]:
        return tuple(record for record in self.records() if isinstance(record, GraphRefused))

    def inaccurate(self) -> tuple[GraphInaccurate, ...]:
        return tuple(record for record in self.records() if isinstance(record, GraphInaccurate))

    def frames_captured(self) -> tuple[capture.GraphRecord, ...]:
        return tuple(record for record in self.frames.records() if isinstance(record, capture.GraphRecord))

    def breaks(self) -> tuple[capture.BreakRecord, ...]:
        return tuple(record for record in self.frames.records() if isinstance(record, capture.BreakRecord))

    def recompiled(self) -> tuple[capture.RecompileRecord, ...]:
        return tuple(record for record in self.frames.records() if isinstance(record, capture.RecompileRecord))

    def run_once(self) -> tuple[capture.SingleRunRecord, ...]:
        return tuple(record for record in self.frames.records() if isinstance(record, capture.SingleRunRecord))

    def kept(self) -> tuple[capture.StoreRecord, ...]:
        return tuple(record for record in self.frames.records() if isinstance(record, capture.StoreRecord))

    def left_alone(self) -> tuple[capture.FallbackRecord, ...]:
        return tuple(record for record in self.frames.records() if isinstance(record, capture.FallbackRecord))


def kernels_of(kernels: Iterable[inductor.CompiledKernel]) -> tuple[Kernel, ...]:
    """The ledger's records of the code generator's."""
    return tuple(Kernel(k.name, None if k.path is None else str(k.path), k.operators, k.source) for k in kernels)


def total(seconds: Iterable[tuple[str, float]]) -> float:
    """The sum of the seconds of all stages."""
    return sum(value for _, value in seconds)
