"""The process-wide state of this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

from dataclasses import dataclass, field

from .pools import Pools


@dataclass(slots=True)
class State:
    """The only state of the package; everything else is an argument, or belongs to a device's pools."""

    pools: dict[int, Pools] = field(default_factory=dict)
    """The managers of each CUDA device that something was recorded on."""


STATE = State()
