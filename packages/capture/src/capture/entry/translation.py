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
from capture.values.asked import Asked
from capture.writing.lock_blocks import Recheck

_UNKNOWN = 2  # kernels of an operator of which nothing is known
_MUCH = 100


@dataclass(frozen=True, slots=True)
class Translation:
    """The outcome of a translation.

    ``code`` is None where nothing is gained: the call, up to the exception it may end in, computes no tensor.
    """

    code: CodeType | None
    guards: tuple[Guard, ...]
    graph: fx.GraphModule | None
    stopped: Stopped | None
    visited: frozenset[int]
    """The instructions of the frame that were evaluated."""
    recheck: Recheck | None = None
    once: bool = False
    """True if its graph runs as it was recorded."""
    changed: frozenset[Source] = frozenset()
    """The sources that it relies on and that its own effects change."""
    parts: Parts = field(default_factory=Parts)
    """The objects that its code holds."""
    entered: tuple[Entered, ...] = ()
    """The functions that were evaluated, the frame's own aside."""
    broke: BreakRecord | None = None
    of_this_process: tuple[str, ...] = ()
    """The reasons for which no other process may take it up."""
    asked: tuple[Asked, ...] = ()
    """The questions that were put to functions that remember their answers."""
    tables: tuple[object, ...] = ()
    """The dicts of libraries that were looked at as a whole."""
    varies: bool = False
    """True if sizes or numbers are open in it: of versions that fit a call, one without may do more."""

    @property
    def operators(self) -> int:
        """The number of kernels of their own that its operators would be in eager, about."""
        return operators_of(self.graph)


def operators_of(module: fx.GraphModule | None) -> int:
    """The number of kernels of their own that a recorded graph's operators would be in eager, about."""
    return 0 if module is None else sum(map(_weight, module.graph.nodes))


def _weight(node: fx.Node) -> int:
    """The number of kernels that was found out when a node was recorded; modules are bodies that are called."""
    if node.op in ("placeholder", "output"):
        return 0
    if node.op in ("call_module", "get_attr"):
        return _MUCH
    work: int = node.meta.get("work", _UNKNOWN)
    return work
