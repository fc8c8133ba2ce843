"""``explain`` and ``export``: one call looked at, in both spellings that users know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

import capture
from compile_api.backends import Backend, CompilerFn, Context, lookup
from compile_api.ledger import Ledger
from compile_api.logs import follow
from compile_api.observing import observed
from compile_api.options import resolve
from compile_api.progress import Progress
from compile_api.report import Report, of_ledger


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one call did: a report on one screen when printed, data otherwise.

    It unpacks into the six parts of the older spelling: a sentence, the guards, the graphs, the operators of each, the
    reasons of breaks, and the whole text.
    """

    result: Any
    graphs: tuple[fx.GraphModule, ...]
    report: Report

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.report.breaks)

    @property
    def op_count(self) -> int:
        return sum(map(len, self.ops_per_graph))

    @property
    def ops_per_graph(self) -> tuple[tuple[str, ...], ...]:
        return tuple(graph.operators for graph in self.report.captured)

    @property
    def break_reasons(self) -> tuple[capture.BreakRecord, ...]:
        return self.report.breaks

    @property
    def guards(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(guard for frame in self.report.frames for guard in frame.guards))

    def __iter__(self) -> Iterator[Any]:
        sentence = f"{self.graph_count} graphs with {self.op_count} operators, {self.graph_break_count} breaks"
        yield from (sentence, self.guards, self.graphs, self.ops_per_graph, self.break_reasons, str(self))

    def __str__(self) -> str:
        return str(self.report)

    __repr__ = __str__


def explain(function: Any, *args: Any, backend: str | CompilerFn = "inductor", **kwargs: Any) -> Any:
    """``explain(f)(*args)`` compiles and runs ``f`` anew and says what happened; ``explain(f, *args)`` does the same.

    Nothing that was compiled before is used or changed.  ``backend`` is looked at instead of the default one.
    """

    def run(*args: Any, **kwargs: Any) -> Explanation:
        graphs: list[fx.GraphModule] = []
        ledger = Ledger()
        follow(ledger)
        options = resolve(fullgraph=False, dynamic=None, mode=None, options=None)
        seen = observed(_keeping(lookup(backend), graphs), Context(options, ledger, Progress.for_terminal()))
        plain = _as_written(function)
        target = plain.__call__ if isinstance(plain, torch.nn.Module) else plain
        result = capture.optimize(seen, strict=options.strict, log=ledger.frames)(target)(*args, **kwargs)
        return Explanation(result, tuple(graphs), of_ledger(ledger))

    return run(*args, **kwargs) if args or kwargs else run


def _as_written(function: Any) -> Any:
    """The user's own function or module behind a compiled one, which would be looked at while it runs what it has."""
    return getattr(function, "_orig_mod", capture.as_written(function))


def _keeping(entry: Backend, graphs: list[fx.GraphModule]) -> Backend:
    """The backend, with every graph it is given kept."""

    def make(ctx: Context) -> CompilerFn:
        compiler = entry.make(ctx)

        def compile_graph(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            graphs.append(gm)
            return compiler(gm, example_inputs)

        return compile_graph

    return Backend(entry.name, make, entry.note)


def export(function: Any, *args: Any, **kwargs: Any) -> Any:
    """``export(f)(*args)``, or ``export(f, *args)``: the one graph of ``f`` and the guards it relies on.

    Raises ``capture.Unsupported`` with line and reason where ``f`` cannot be one graph.  Parameters and buffers are
    inputs of the graph, after the arguments.
    """
    made = capture.export(_as_written(function))
    return made(*args, **kwargs) if args or kwargs else made
