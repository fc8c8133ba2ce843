"""Facts about one run of the program: the inputs it mutates, the outputs that alias them, and what each output is made
of.

All frozen data; `tracing/analyse.py` fills it, `calling/wrapper.py` turns it into code.
Must not know: how it was found, how it is restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SizeRef:
    """Stands in a step's arguments for the integer that the forward graph returns at `index` of its sizes."""

    index: int


@dataclass(frozen=True, slots=True)
class Step:
    """One view operator, to be repeated on a real tensor: `target(tensor, *args, **kwargs)`."""

    target: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Restride:
    """A view by layout, for where no chain of operators leads from the base; `offset` counts from the base's own."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any


@dataclass(frozen=True, slots=True)
class Detach:
    """An output that is no view of its base to autograd, but shares its version counter."""


@dataclass(frozen=True, slots=True)
class Data:
    """An output that comes from its base by ``.data``: autograd knows neither of the other, nor of its changes.  Its
    own writes are counted apart."""

    writes: int = 0


@dataclass(frozen=True, slots=True)
class Base:
    """The steps up to here make one tensor for all outputs that have this number: to autograd it is their base, by
    which they know of one another's writes."""

    number: int


@dataclass(frozen=True, slots=True)
class Unfollowed:
    """A view made while gradients were off, or in inference mode: no gradient goes through it to its base, though torch
    may say that it requires grad.  Steps behind it were made while they were on."""

    inference: bool = False


@dataclass(frozen=True, slots=True)
class Frozen:
    """An output that is a view which a function with a backward of its own returned: torch refuses to write to it, for
    the reason `made_in`."""

    made_in: Any


@dataclass(frozen=True, slots=True)
class Followed:
    """A view made while gradients were on, which they are not where the graph is called."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """The difference between one graph input before and after the call."""

    input: int
    data: bool
    tracked: bool  # autograd saw the change, so the write-back must be seen too
    layout: Restride | None
    writes: int = 1  # how many autograd counted


@dataclass(frozen=True, slots=True)
class Constant:
    """An output that no call changes: None, a number, a tensor from outside."""

    value: Any


@dataclass(frozen=True, slots=True)
class Argument:
    """An output that is one of the caller's own tensors."""

    position: int


@dataclass(frozen=True, slots=True)
class OfInput:
    """An output that is a view of a graph input, which the caller passes at `position`; of several that share memory,
    one of them.

    ``older`` than the last write to it: autograd looks for its history anew, should what it views get one later.
    """

    input: int
    steps: tuple[Any, ...]
    position: int
    older: bool = False


@dataclass(frozen=True, slots=True)
class OfResult:
    """An output that is a tensor which the graph returns, or a view of it, which may be older than the last write to
    it."""

    result: int
    steps: tuple[Any, ...] = ()
    older: bool = False


@dataclass(frozen=True, slots=True)
class OfSize:
    """An output that is an integer which the graph returns."""

    index: int


Output = Constant | Argument | OfInput | OfResult | OfSize


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the wrapper must restore around the functional graphs."""

    mutations: tuple[Mutation, ...]
    outputs: tuple[Output, ...]
    results: int  # tensors that the graph returns for the outputs
    sizes: int  # integers that it returns
    counts: tuple[tuple[int, int], ...] = ()  # the caller's position of each tensor whose version moves, and how far
    versions: tuple[tuple[int, int], ...] = ()  # of results that were written to, or that a kernel may have written to
    elsewhere: tuple[int, ...] = ()  # results made in another inference mode than the caller's
    owners: tuple[int, ...] = ()  # results that the graph makes by a view, and whose views are returned

    @property
    def updates(self) -> tuple[int, ...]:
        """The inputs whose new data the graph returns, in order."""
        return tuple(mutation.input for mutation in self.mutations if mutation.data)
