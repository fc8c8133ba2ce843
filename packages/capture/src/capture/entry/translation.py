"""One translation: what evaluating a frame and writing its code came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

from torch import fx

from capture.evaluator.assumptions import Stopped
from capture.guards.guard import Guard
from capture.guards.sources import Source
from capture.log import BreakRecord
from capture.stored.code import Parts
from capture.stored.reach import Entered
from capture.writing.lock_blocks import Recheck

_UNKNOWN = 2  # kernels of an operator of which nothing is known
_MUCH = 100


@dataclass(frozen=True, slots=True)
class Translation:
    """``code`` is None where nothing is gained: the call, up to the exception it may end in, computes no tensor."""

    code: CodeType | None
    guards: tuple[Guard, ...]
    graph: fx.GraphModule | None
    stopped: Stopped | None
    visited: frozenset[int]
    """Which instructions of the frame were evaluated."""
    recheck: Recheck | None = None
    once: bool = False
    """Its graph runs as it was recorded."""
    changed: frozenset[Source] = frozenset()
    """What it relies on and its own effects change."""
    parts: Parts = field(default_factory=Parts)
    """What its code holds."""
    entered: tuple[Entered, ...] = ()
    """The functions that were evaluated, the frame's own aside."""
    broke: BreakRecord | None = None

    @property
    def operators(self) -> int:
        """How many kernels of their own its operators would be in eager, about."""
        return operators_of(self.graph)


def operators_of(module: fx.GraphModule | None) -> int:
    """Of a graph as it was recorded."""
    return 0 if module is None else sum(map(_weight, module.graph.nodes))


def _weight(node: fx.Node) -> int:
    """What was found out when it was recorded; modules are bodies that are called."""
    if node.op in ("placeholder", "output"):
        return 0
    if node.op in ("call_module", "get_attr"):
        return _MUCH
    work: int = node.meta.get("work", _UNKNOWN)
    return work
