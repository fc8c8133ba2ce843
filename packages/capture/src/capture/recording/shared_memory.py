"""Tensors that share memory.  A graph that changes one of its inputs holds for what lay where when it was recorded.

Asked about all tensors that the graph takes, whoever holds them: weights may be tied, and buffers moved into one
memory, at any time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch

from capture.errors import Location, SkipFrame
from capture.guards.guard import Guard
from capture.guards.kinds import GuardKind
from capture.guards.layouts import has_windows, is_without_windows, may_get_windows
from capture.guards.sources import Inputs, MadeSource, Source
from capture.reasons import Kind, Reason
from capture.recording.graph import GraphRecorder, memory_of


class Overlapping(Exception):
    """Tensors with open layouts are written to, and have windows that overlap; ``sources`` are where they are."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = frozenset(sources)
        super().__init__()


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def relied_on(graph: GraphRecorder, inputs: Inputs, location: Location) -> list[Guard]:
    """The guards on which tensors share memory, and that those which the graph changes do not show it twice."""
    examples = {source: node.meta.get("val") for source, node in graph.inputs.items()}
    tensors_of = {
        source: example
        for source, example in examples.items()
        # What is made of a number for the call is in nobody else's memory.
        if isinstance(example, torch.Tensor) and not isinstance(source, MadeSource)
    }
    changed = graph.changed_memory()
    written = {source for source, example in tensors_of.items() if memory_of(example) in changed}
    if not written:
        return []
    given = list(tensors_of)
    tensors = [source.read(inputs) for source in given]
    pairs = zip(given, tensors, strict=True)
    open_ones = {s: tensor for s, tensor in pairs if s in written and _may_get_windows(graph, tensors_of[s], tensor)}
    if overlapping := [source for source, tensor in open_ones.items() if has_windows(tensor)]:
        raise Overlapping(overlapping)
    apart = [
        Guard(
            source,
            GuardKind.PYTHON,
            (is_without_windows,),
            location,
            f"no two elements of {source.expression()} are one",
        )
        for source in open_ones
    ]
    if len(given) < 2:
        return apart
    shared = sharing(tensors)
    _refuse_unknown_sharing([memory_of(example) for example in tensors_of.values()], shared)
    names = ", ".join(source.expression() for source in given)
    text = f"{names} share {'the same' if shared else 'no'} memory"
    payload = (tuple(given), _as_numbers(tensors, shared), functools.partial(_share_as_before, tuple(given), shared))
    return [*apart, Guard(None, GuardKind.MEMORY, payload, location, text)]


def _may_get_windows(graph: GraphRecorder, example: torch.Tensor, tensor: torch.Tensor) -> bool:
    if graph.shape_env is None or example.layout is not torch.strided:
        return False
    sizes = tuple(size if isinstance(size, int) else None for size in example.shape)
    return may_get_windows(sizes, graph.strides_relied_on(example, tensor))


def _refuse_unknown_sharing(memories: Sequence[int | None], shared: Sequence[tuple[int, int, int]]) -> None:
    """Leaves the frame to CPython if tensors share memory of which their fakes do not show it.

    A backend learns from the fakes alone which tensors share memory, and those of views with a history, or whose sizes
    are dynamic, may not show it.
    """
    if len({memories[number] for number, *_ in shared}) != len({first for _, first, _ in shared}):
        raise SkipFrame(
            Reason(Kind.MEMORY, "tensors share memory that a backend is not told of, and one is changed"), always=False
        )


def _as_numbers(tensors: Sequence[Any], shared: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    """The sharing for the engine, which knows no dtypes.

    For each tensor how large an item is, the first tensor in the same memory, and how far in it begins.
    """
    places = {number: (first, distance) for number, first, distance in shared}
    return tuple((int(tensor.element_size()), *places.get(n, (-1, 0))) for n, tensor in enumerate(tensors))


def sharing(tensors: Sequence[object]) -> tuple[tuple[int, int, int], ...]:
    """The tensors that share memory: each one's number, that of the first in its memory, and how far into it."""
    spans = sorted((*_span(tensor), number) for number, tensor in enumerate(tensors))
    groups: list[list[int]] = []
    end = 0
    starts: list[int] = []
    # Spans in order of their starts: one that begins before all earlier ones have ended lies in their memory.
    for start, stop, number in spans:
        if start == stop:
            continue
        if not groups or start >= end:
            groups.append([])
            starts.append(start)
        groups[-1].append(number)
        end = max(end, stop)
    return tuple(
        (number, min(group), _address(tensors[number]) - start)
        for group, start in zip(groups, starts, strict=True)
        if len(group) > 1
        for number in sorted(group)
    )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's memory; nothing for a tensor that has none of its own."""
    if type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
        return 0, 0
    storage = tensor.untyped_storage()
    start: int = storage.data_ptr()
    return start, start + int(storage.nbytes())


def _address(tensor: torch.Tensor) -> int:
    return _span(tensor)[0] + int(tensor.storage_offset()) * int(tensor.element_size())


def _share_as_before(
    sources: Sequence[Source], before: tuple[tuple[int, int, int], ...], function: FunctionType, *args: object
) -> bool:
    """True if the tensors of a call, of a function and its arguments, share memory as they did."""
    inputs = Inputs(function, args)
    return sharing([source.read(inputs) for source in sources]) == before
