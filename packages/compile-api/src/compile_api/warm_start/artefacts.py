"""The keys by which compiled graphs are found again, noted where graphs are compiled or taken up, as long as they live.

Must not know how a graph is compiled, nor who asks.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compile_api.memory import Written


@dataclass(frozen=True, slots=True)
class Artefact:
    """One compiled ATen graph: its key in the cache, or the reason why it has none, and its entry in the ledger."""

    key: str | None
    reason: str
    direction: str
    nodes: int
    written: Written


@dataclass(slots=True)
class Artefacts:
    """The artefacts of one compiled function.  The graphs as capture recorded them are known by their operators."""

    of_graphs: weakref.WeakKeyDictionary[Callable[..., object], Artefact] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    operators: weakref.WeakKeyDictionary[Callable[..., object], Sequence[str]] = field(
        default_factory=weakref.WeakKeyDictionary
    )
