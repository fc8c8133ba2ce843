"""``explain`` and ``export``: one call looked at, in both spellings that users know."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import fx

import capture
from compile_api.backends import Backend, CompilerFn, Context, lookup
from compile_api.break_costs import BreakCost, Order
from compile_api.errors import BadOption
from compile_api.exported import Exported, exported
from compile_api.ledger import Ledger
from compile_api.logs import follow
from compile_api.observing import observed
from compile_api.options import resolve
from compile_api.progress import Progress
from compile_api.report import Report, of_ledger, place, section


@dataclass(frozen=True, slots=True)
class Explanation:
    """The account of one call: a report on one screen when printed, data otherwise.

    It unpacks into the six parts of the older spelling: a sentence, the guards, the graphs, the operators of each, the
    reasons of breaks, and the whole text.
    """

    result: Any
    graphs: tuple[fx.GraphModule, ...]
    report: Report
    costs: tuple[BreakCost, ...] = ()
    """The cost of each graph break, in the order in which they came."""
    disabled: str = ""
    """The function's name, where a program asked that it is not captured."""

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

    @property
    def out_guards(self) -> tuple[str, ...]:
        """``guards``, by the name that ``torch._dynamo.explain`` gives them."""
        return self.guards

    @property
    def compile_times(self) -> str:
        """The stages of compiling, as ``torch._dynamo.explain`` names them: one line for each."""
        return "\n".join(f"{stage}: {seconds:.3f} s" for stage, seconds in self.report.stages.items())

    def __str__(self) -> str:
        lines = [f"{place(cost.location)}: {cost}" for cost in self.costs]
        first = (
            [f"{self.disabled} is disabled: it ran in Python; remove `disable` to compile it"] if self.disabled else []
        )
        return "\n".join([*first, str(self.report), *section("what they cost", lines)])

    __repr__ = __str__


def explain(function: object, *args: object, backend: str | CompilerFn = "inductor", **kwargs: object) -> Any:
    """``explain(f)(*args)`` compiles and runs ``f`` anew and says what happened; ``explain(f, *args)`` does the same.

    Nothing that was compiled before is used or changed.  ``backend`` is looked at instead of the default one.
    """
    if not callable(function):
        raise TypeError(f"explain takes a function or a module, not {type(function).__name__}")

    def run(*args: object, **kwargs: object) -> Explanation:
        graphs: list[fx.GraphModule] = []
        ledger = Ledger()
        follow(ledger)
        options = resolve(fullgraph=False, dynamic=None, mode=None, options=None)
        order = Order()
        ledger.frames.subscribe(order.events.append)
        # Graphs and the records of capture go into one list: only their order tells which graph a break ended.
        kept = _keeping(lookup(backend), graphs, order)
        seen = observed(kept, Context(options, ledger, Progress.for_terminal()))
        plain = as_written(function)
        target = plain.__call__ if isinstance(plain, torch.nn.Module) else plain
        result = capture.optimize(seen, strict=options.strict, log=ledger.frames)(target)(*args, **kwargs)
        disabled = getattr(plain, "__qualname__", str(plain)) if capture.is_left_out(plain) else ""
        return Explanation(result, tuple(graphs), of_ledger(ledger), order.costs(), disabled)

    return run(*args, **kwargs) if args or kwargs else run


def as_written(function: object) -> Any:
    """The user's own function or module behind a compiled one, which would be looked at while it runs what it has."""
    marks = vars(function) if isinstance(function, FunctionType) else {}
    if "_torchdynamo_orig_callable" in marks and not marks.get("_torchdynamo_disable", False):  # torch compiled it
        return marks["_torchdynamo_orig_callable"]
    return getattr(function, "_orig_mod", capture.as_written(function))


def _keeping(entry: Backend, graphs: list[fx.GraphModule], order: Order) -> Backend:
    """The backend, with every graph it is given kept."""

    def make(ctx: Context) -> CompilerFn:
        compiler = entry.make(ctx)

        def compile_graph(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
            graphs.append(gm)
            order.events.append(gm)
            return compiler(gm, example_inputs)

        return compile_graph

    return Backend(entry.name, make, entry.note)


def export(
    function: object,
    *args: object,
    kwargs: Mapping[str, object] | None = None,
    dynamic_shapes: object = None,
    **named: object,
) -> Any:
    """The one graph of ``f`` and the guards it relies on: ``export(f)(*args)``, ``export(f, *args)``, or as
    ``torch.export.export`` is called, ``export(f, args)`` with a tuple and ``export(f, args=(...), kwargs={...})``.

    Raises ``capture.Unsupported`` with line and reason where ``f`` cannot be one graph.  The graph module is called as
    ``f`` is and returns what ``f`` does; it holds parameters and buffers, under their names.  ``dynamic_shapes`` is
    refused: a graph made here is for the sizes that it is given.
    """
    if not callable(function):
        raise TypeError(f"export takes a function or a module, not {type(function).__name__}")
    if dynamic_shapes is not None:
        raise BadOption(
            "export makes a graph for the sizes it is given, so it takes no dynamic_shapes; for sizes that vary use "
            "compile(..., dynamic=True), or torch.export.export, whose program any backend here compiles"
        )
    target = as_written(function)

    # Two spellings: ``export(f)(x)``, and ``export(f, x)`` with the arguments at once.
    def made(*args: Any, **kwargs: Any) -> Exported:
        return exported(target, args, kwargs)

    given, takes = _arguments(args, named, kwargs, function)
    return made(*given, **takes) if given or takes or args or named or kwargs is not None else made


def _arguments(
    args: tuple[Any, ...], named: dict[str, Any], kwargs: Mapping[str, Any] | None, function: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the function: a tuple alone is all of them, unless the function takes a tuple by that name."""
    takes = {**named, **(kwargs or {})}
    if "args" in named and not args and isinstance(named["args"], tuple | list):
        return tuple(takes.pop("args")), takes
    if not args or type(args[0]) is not tuple or len(args) > 2 or (len(args) == 2 and type(args[1]) is not dict):
        return args, takes
    spread = args[0], {**takes, **(args[1] if len(args) == 2 else {})}
    called = function.forward if isinstance(function, torch.nn.Module) else function
    # Where both ways fit, nobody can tell; who writes ``(x,)`` means torch's way.
    return (args, takes) if _fits(called, args, takes) and not _fits(called, *spread) else spread


def _fits(function: Any, args: tuple[Any, ...], takes: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **takes)
    except (TypeError, ValueError):
        return False
    return True
