"""The settings of capture: one frozen object, passed in, never read from the environment.

What a program's own settings ask for besides is another one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import get_args, get_type_hints


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a user can choose; the defaults are right for most programs."""

    nopython: bool = False
    """Raise ``Unsupported`` instead of breaking the graph."""

    dynamic: bool | None = None
    """``None``: a size or an int becomes symbolic once it has varied; ``True``: from the first call; ``False``:
    never.
    """

    specialize_int: bool = False
    """Capture again for every value of an int that is passed in, also when it is known to vary."""

    specialize_float: bool = False
    """Capture again for every value of a float that is passed in, also when it is known to vary."""

    capture_scalar_outputs: bool = True
    """Go on after a number was read out of a tensor, as long as nothing in Python depends on it; False: break there."""

    capture_dynamic_output_shapes: bool = True
    """Keep operators whose result's size depends on data in the graph (``nonzero``, masks); False: break there."""

    strict: bool = False
    """Raise our own internal errors instead of running the frame in CPython."""

    recompile_limit: int = 8
    """The number of versions of one code object before CPython runs what wants a constant, or all of it."""

    leave_idle: bool = True
    """Let CPython run a frame that computes no tensor, under the guards found for it; tests of the evaluator say no."""

    idle_instructions: int | None = 20_000
    """The instructions of a file without a tensor in reach that are evaluated before CPython runs the rest of it.

    None: no end, and what breaks there goes on in pieces.
    """

    largest_graph: int | None = 20_000
    """The number of operators at which a graph ends and CPython goes on, where the function need not be captured whole.

    None: as many as there are.
    """

    equal_calls: bool = False
    """Evaluate calls of modules that are equal but for the module once; what the first did is done again for others."""

    verify_equal_calls: bool = False
    """Evaluate such calls all the same, and raise an ``InternalError`` where that comes to anything else."""

    def __post_init__(self) -> None:
        for name, kinds in _kinds().items():
            value = getattr(self, name)
            if type(value) not in kinds:
                raise TypeError(f"option {name} is {' or '.join(map(_WORDS.__getitem__, kinds))}, not {value!r}")


@functools.cache
def _kinds() -> dict[str, tuple[type, ...]]:
    """The types that each option may be of, by its annotation."""
    hints: dict[str, object] = get_type_hints(Options)
    return {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}


_WORDS: Mapping[type, str] = {bool: "True or False", int: "an integer", NoneType: "None"}


@dataclass(frozen=True, slots=True)
class ProgramSettings:
    """The settings of a program that was written for another compiler; the defaults change nothing."""

    disabled: bool = False
    """Nothing more is captured for now."""
    recompile_limit: int | None = None
    """In the place of the default limit; a limit that was given to ``optimize`` stays."""
    recompiling_is_an_error: bool = False
    """A call that no version fits raises ``RecompileRefused``, unless it is the first one."""
    limit_is_an_error: bool = False
    """A call that would need a version more than there may be raises ``RecompileLimitHit``."""
    said_later: tuple[object, ...] = ()
    """Functions that write what they are given somewhere, and may be called at the end of a graph."""
    failures_run_eagerly: bool = False
    """True if CPython runs a function whose graph a backend fails on, which is said."""
