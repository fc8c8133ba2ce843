"""A captured function and what is known of it for each signature it was called with.

State only; what happens to it is decided by the manager.  One function's inputs and outputs are judged together: how
often each was found in the way says which are copied from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from .errors import Refusal
from .node import Recording
from .options import Options
from .storage import CopyPolicy


class Case:
    """One function called with one signature.  It is the lender of what its recordings hand out."""

    def __init__(self, options: Options) -> None:
        self.calls = 0
        self.refusal: Refusal | None = None
        self.recordings: list[Recording] = []
        self.outputs = CopyPolicy(options)
        self.inputs = CopyPolicy(options)
        self.plain_seconds: float | None = None
        self.replay_seconds: list[float] = []

    def found_held(self, slot: int, nbytes: int) -> None:
        """An output was still held when its memory was wanted: perhaps it is better copied out."""
        self.outputs.stood_in_the_way(slot, nbytes)


class Function:
    """A callable with its options and its cases."""

    def __init__(
        self,
        fn: Callable[..., Any],
        options: Options,
        static: frozenset[int] = frozenset(),
        changed: frozenset[int] = frozenset(),
        name: str = "",
    ) -> None:
        self.fn = fn
        self.name = name or getattr(fn, "__qualname__", None) or type(fn).__qualname__
        self.options = options
        self.static = static
        self.changed = changed
        self.cases: dict[Hashable, Case] = {}

    def recordings(self) -> int:
        """How many graphs it has, over all cases."""
        return sum(len(case.recordings) for case in self.cases.values())

    def case(self, signature: Hashable) -> Case | None:
        """The case of this signature; None for a new one when there is no room for its first recording."""
        known = self.cases.get(signature)
        if known is None and max(self.recordings(), len(self.cases)) < self.options.recordings_per_function:
            known = self.cases[signature] = Case(self.options)
        return known
