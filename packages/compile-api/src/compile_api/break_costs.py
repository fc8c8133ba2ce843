"""The costs of a graph break: the graphs that it parts, the tensors that cross between them, and the guards that are
checked once more.

Only what was seen: how long CPython takes in between cannot be told from a call that compiles meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

import capture


@dataclass(frozen=True, slots=True)
class BreakCost:
    """One break: the operators of the graph that ends at it and of the next one, the tensors that the former hands
    over, and what the latter takes: guards at each call, seconds once."""

    location: capture.Location
    before: int
    after: int
    tensors: int
    bytes: int
    guards: int
    seconds: float

    def __str__(self) -> str:
        parts = [f"a graph of {_count(self.before, 'operator')} ends" if self.before else "no graph ends here"]
        if self.after:
            parts.append(
                f"one of {_count(self.after, 'operator')} begins ({_count(self.guards, 'guard')} at each call, "
                f"{self.seconds:.2f} s to compile)"
            )
        else:
            parts.append("none begins")
        text = ", ".join(parts)
        if self.tensors and self.after:
            text += f"; {_count(self.tensors, 'tensor')} ({self.bytes} B) not fused across"
        return text


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


@dataclass
class Order:
    """Graphs and breaks as they come: a break follows the graph that it ends, before that graph's own record."""

    events: list[Any] = field(default_factory=list)

    def costs(self) -> tuple[BreakCost, ...]:
        return tuple(
            self._cost(place, record)
            for place, record in enumerate(self.events)
            if isinstance(record, capture.BreakRecord)
        )

    def _cost(self, place: int, record: capture.BreakRecord) -> BreakCost:
        ended = self.events[place - 1] if place else None
        before = ended if isinstance(ended, fx.GraphModule) else None
        # The record of the graph that ended comes behind the break: it must not be taken for the next graph's.
        rest = self.events[place + 1 :] if before is None else _past_own_record(self.events[place + 1 :])
        after = next((each for each in rest if isinstance(each, fx.GraphModule)), None)
        about = next((each for each in rest if isinstance(each, capture.GraphRecord)), None)
        crossing = [] if before is None else list(_results(before))
        return BreakCost(
            record.location,
            _operators(before),
            _operators(after),
            len(crossing),
            sum(crossing),
            0 if after is None or about is None else len(about.guards),
            0.0 if after is None or about is None else about.capture_seconds + about.backend_seconds,
        )


def _past_own_record(events: list[object]) -> list[Any]:
    own = next((place for place, each in enumerate(events) if isinstance(each, capture.GraphRecord)), -1)
    return events[own + 1 :]


def _operators(gm: fx.GraphModule | None) -> int:
    return 0 if gm is None else sum(node.op.startswith("call_") for node in gm.graph.nodes)


def _results(gm: fx.GraphModule) -> Iterable[int]:
    """The bytes of each tensor that the graph returns; of sizes that vary, as they were."""
    output = next(node for node in gm.graph.nodes if node.op == "output")
    for node in output.all_input_nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" and isinstance(value, torch.Tensor):
            yield int(value.numel()) * value.element_size() if _is_plain(value) else 0


def _is_plain(value: torch.Tensor) -> bool:
    return all(isinstance(size, int) for size in value.shape)
