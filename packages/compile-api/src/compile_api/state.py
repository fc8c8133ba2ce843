"""The process-wide state of this package: one object, whose fields tests may replace for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from compile_api.ledger import Ledger
from compile_api.messages import Messages


@dataclass(slots=True)
class Served:
    """The replacements in torch's modules: ours, the functions that were there before, and what is on
    record of each call."""

    before: dict[tuple[str, str], Any] = field(default_factory=dict)
    ledgers: list[list[tuple[str, Ledger]]] = field(default_factory=list)
    """The records to report, by call."""
    switched_off: bool = False
    """True if it was called and was to do nothing."""
    messages: Messages = field(default_factory=Messages)
    backend: str | Callable[..., Any] | None = None
    """The argument of ``torch.compiler.set_default_backend``."""
    replacements: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Our functions by module and name; made once, and kept by whoever holds one of them."""
    put_back: list[Callable[[], None]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(slots=True)
class State:
    """The only state of the package; everything else is an argument, or kept by a function that would answer the same
    again."""

    served: Served = field(default_factory=Served)
    """The replacements in torch's modules, which are process-wide, and so is what we put into them."""

    backends: dict[str, Callable[..., Callable[..., object]]] = field(default_factory=dict)
    """The functions that were registered as backends, by name: the user's and libraries', beside the built-in ones."""

    newer_torch_warned: set[str] = field(default_factory=set)
    """The versions of torch that were reported as newer than those tested."""


STATE = State()
