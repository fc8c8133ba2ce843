"""Making a recording out of one call.

Exists to hold the order in which a recording is made: take what must stay, record, look at what is left, note the
allocator's state, let everything go.  Must not know when recording is worth it.
"""

from __future__ import annotations

import gc
import os
import traceback
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from .aliases import Fresh, Output, classify
from .driver import Boxed, Driver, Graph, State, Tensor
from .errors import CannotRecord, Refusal
from .inputs import InputPlan
from .node import Recording, arranged, flattened
from .storage import Block, Lender, Loans

_OURS = os.path.dirname(__file__) + os.sep
_TORCH = os.path.dirname(torch.__file__) + os.sep


@dataclass(frozen=True, slots=True)
class Request:
    """A call to be recorded."""

    function: str
    fn: Boxed
    inputs: Sequence[Any]
    plan: InputPlan
    declared_changed: Collection[int]
    protected: Mapping[int, int]
    parent: Recording | None
    number: int
    lender: Lender


@dataclass(frozen=True, slots=True)
class _Traced:
    """The results of recording, without any of its tensors."""

    graph: Graph
    rebuild: Callable[[list[Any]], Any]
    outputs: tuple[Output, ...]
    lends: tuple[Block, ...]
    state: State
    changed: tuple[int, ...]
    buffers: tuple[Tensor, ...]


def record(driver: Driver, request: Request) -> Recording:
    """Records the call; the pool must count exactly the protected blocks as taken, and does so again afterwards."""
    traced = _trace(driver, request)
    after = {**request.protected, **{block.address: block.nbytes for block in traced.lends}}
    loans, others = arranged(traced.outputs, traced.lends)
    return Recording(
        number=request.number,
        function=request.function,
        follows=None if request.parent is None else weakref.ref(request.parent),
        inputs=replace(request.plan, changed=traced.changed),
        in_place=driver.same_addresses(request.plan.in_place, request.plan.addresses),
        buffers=traced.buffers,
        keeps=tuple(request.inputs[i] for i in request.plan.in_place if not driver.on_device(request.inputs[i])),
        loans=loans,
        lends=Loans(
            driver.handout([(loan.block, loan.views) for loan in loans]),
            [loan.block for loan in loans],
            request.lender,
        ),
        others=others,
        returns=len(traced.outputs),
        direct=[position for loan in loans for position in loan.positions] == list(range(len(traced.outputs))),
        rebuild=traced.rebuild,
        protected=dict(request.protected),
        after=after,
        graph=traced.graph,
        state=traced.state,
    )


def _trace(driver: Driver, request: Request) -> _Traced:
    copied = request.plan.copied
    arguments = list(request.inputs)
    for index in copied:
        arguments[index] = driver.buffer_like(request.inputs[index])
    homes = [(driver.block(arguments[index]), driver.view(arguments[index])) for index in copied]
    buffers = tuple(driver.lend(block, [view])[0] for block, view in homes)  # these own nothing
    tensors = [index for index, value in enumerate(arguments) if driver.is_tensor(value)]
    versions = {index: driver.version(arguments[index]) for index in tensors}
    graph, result = _call_recorded(driver, request, arguments, buffers)
    declared = request.declared_changed
    changed = tuple(i for i in tensors if i in declared or driver.version(arguments[i]) != versions[i])
    rebuild, results = flattened(result)
    # Every reference goes before the pool is looked at: what is still allocated then is returned, or kept by the
    # function.
    del result
    made = driver.occupied() - request.protected.keys() - {block.address for block, _ in homes}
    outputs, lends = classify(driver, arguments, results, made, request.protected)
    returned = _only_fresh(outputs, results)
    del results, arguments
    _check_nothing_kept(driver, request.protected, lends)
    state = driver.checkpoint()
    del returned
    return _Traced(graph, rebuild, outputs, lends, state, changed, buffers)


def _call_recorded(
    driver: Driver, request: Request, arguments: Sequence[object], buffers: Sequence[Tensor]
) -> tuple[Graph, Any]:
    """The graph and the result of the recorded call.  A function that cannot be recorded fails in whatever way its
    operators choose, so every exception counts as that; one of the user's own comes up again in the plain call that
    follows."""
    sources = [request.inputs[index] for index in request.plan.copied]
    try:
        with _no_garbage_collected():
            return driver.record(request.fn, arguments, buffers, sources)
    except CannotRecord:
        raise
    except Exception as error:  # noqa: BLE001 - defended above
        first = _first(error)
        detail, where = f"{type(first).__name__}: {first}".split("\n", 1)[0], _where(first)
        del first
    # Raised out here so that it does not drag along the frames, and with them the memory, of the failed call.
    raise CannotRecord(Refusal.UNSAFE_OPERATOR, detail, where)


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Suspends garbage collection: old graphs may lie in cycles, and freeing one while another is recorded breaks the
    recording off."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _first(error: BaseException) -> BaseException:
    """The first error: ending a recording that failed fails too, and hides the operator that is to blame."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _where(error: BaseException) -> str:
    """The innermost line that is neither ours nor torch's."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((_OURS, _TORCH))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _only_fresh(outputs: Sequence[Output], results: Sequence[Tensor]) -> list[Tensor]:
    return [result for output, result in zip(outputs, results, strict=True) if isinstance(output, Fresh)]


def _check_nothing_kept(driver: Driver, protected: Mapping[int, int], lends: Sequence[Block]) -> None:
    """Raises where the function has kept a tensor: its memory would be overwritten behind its back."""
    expected = protected.keys() | {block.address for block in lends}
    if driver.occupied() == expected:
        return
    gc.collect()  # a cycle among the function's own objects is no hiding place
    if kept := driver.occupied() - expected:
        raise CannotRecord(Refusal.KEEPS_MEMORY, f"{len(kept)} blocks are still held after the recording")
