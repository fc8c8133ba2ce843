"""The surroundings of any backend: the ledger, the debug folder, the accuracy check, refusals.

Each graph is given to the backend here and nowhere else; what is returned is the backend's own callable, with nothing
wrapped around it unless that was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from compile_api import debug_folder, logs
from compile_api.accuracy import checked
from compile_api.backends import Backend, CompilerFn, Context
from compile_api.errors import BackendCannot
from compile_api.ledger import GraphCaptured, GraphRefused, Ledger
from compile_api.options import CompileOptions
from compile_api.stored_graph import Maker
from compile_api.warm_start.artefacts import Artefacts
from compile_api.warm_start.joined import described, taken_up
from compile_api.warm_start.later import KeptBackward
from compile_api.warm_start.store import FrameStore


def observed(entry: Backend, ctx: Context) -> CompilerFn:
    """The backend with every graph that it is given on record."""

    def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        maker = Maker.of(entry.name, entry.function)
        folder = debug_folder.for_graph(ctx.options.debug, gm, example_inputs, maker)
        here = replace(ctx, folder=folder)
        here.progress.restart()
        started = time.perf_counter()
        operators = operators_of(gm)
        try:
            compiled = _compiled(entry, here, gm, example_inputs)
        finally:
            here.progress.done()
            seconds = time.perf_counter() - started
            code = gm.code if logs.any_wanted() else ""
            here.ledger.add(GraphCaptured(entry.name, operators, seconds, code))
        if here.options.check:
            # Parts that are compiled to find a mistake are not what the function compiled to.
            apart = replace(here, ledger=Ledger(), folder=None)
            compiled = checked(gm, compiled, entry.make(apart), here.ledger)
        return compiled if folder is None else folder.observed(compiled)

    compile_graph.__qualname__ = entry.name  # what capture calls the backend
    return compile_graph


def keeping(entry: Backend, ctx: Context, store: FrameStore) -> Kept:
    """``observed`` for a use of ``compile`` whose graphs are kept for other processes."""
    return Kept(entry, ctx, observed(entry, ctx), store)


class Kept:
    """A backend as capture's store of versions wants it: it says by what its graphs are found again."""

    def __init__(self, entry: Backend, ctx: Context, make: CompilerFn, store: FrameStore) -> None:
        self._name, self._ctx, self._make, self._backward_later = entry.name, ctx, make, entry.backward_later
        self.__qualname__ = entry.name  # what capture calls the backend
        self._later = KeptBackward(store, self._artefacts, ctx.ledger)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[object]) -> Callable[..., Sequence[object]]:
        compiled = self._make(gm, example_inputs)
        self._artefacts.operators[compiled] = operators_of(gm)
        return compiled

    @property
    def _artefacts(self) -> Artefacts:
        assert self._ctx.artefacts is not None
        return self._ctx.artefacts

    def describe(self, compiled: Callable[..., Sequence[object]]) -> dict[str, object]:
        return described(self._name, compiled, self._artefacts, self._later)

    def take_up(self, data: object) -> Callable[..., Sequence[object]]:
        started = time.perf_counter()
        assert self._backward_later is not None
        backward = self._backward_later(self._ctx)
        compiled, operators = taken_up(self._name, data, self._artefacts, self._ctx.ledger, backward, self._later)
        self._ctx.ledger.add(GraphCaptured(self._name, operators, time.perf_counter() - started))
        return compiled


def operators_of(gm: torch.fx.GraphModule) -> tuple[str, ...]:
    return tuple(str(node.target) for node in gm.graph.nodes if node.op.startswith("call_"))


def keeps(entry: Backend, options: CompileOptions) -> bool:
    """True if what is captured and compiled is kept on disk; options that look into each graph need all of them
    compiled."""
    looks = options.check or options.debug or options.trace
    return bool(options.warm_start and entry.backward_later and not looks and not options.cuda_graphs)


def spares_single_runs(entry: Backend, options: CompileOptions) -> bool:
    """True if graphs that can run only once are kept from a backend; options that look into each graph get all of
    them."""
    return entry.spares_single_runs and not (options.check or options.debug or options.trace)


def _compiled(
    entry: Backend, ctx: Context, gm: torch.fx.GraphModule, example_inputs: list[object]
) -> Callable[..., Any]:
    try:
        return entry.make(ctx)(gm, example_inputs)
    except BackendCannot as error:
        ctx.ledger.add(GraphRefused(entry.name, str(error), "this graph runs eagerly"))
        return gm.forward
