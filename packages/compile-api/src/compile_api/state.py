"""What a process has one of in this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_api.told import Told


@dataclass(slots=True)
class Served:
    """What is in place of torch's functions, what was there before, and what was compiled meanwhile."""

    before: dict[tuple[str, str], Any] = field(default_factory=dict)
    compiled: list[Any] = field(default_factory=list)
    switched_off: bool = False
    """Whether it was called and was to do nothing."""
    told: Told = field(default_factory=Told)
    backend: str | Callable[..., Any] | None = None
    """What ``torch.compiler.set_default_backend`` was called with."""
    replacements: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By module and name; made once, and kept by whoever holds one of these functions."""
    put_back: list[Callable[[], None]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(slots=True)
class State:
    """Everything else is passed as an argument, or is what a function would answer again."""

    served: Served = field(default_factory=Served)
    """torch's own module is process-wide, and so is what we put into it."""

    newer_torch_told: set[str] = field(default_factory=set)
    """The versions of torch of which it was said that they are newer than those that were tested."""


STATE = State()
