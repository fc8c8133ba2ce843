"""The functions that users call: ``optimize`` and its kin."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from capture import _engine, state
from capture.entry import stance
from capture.entry.first_frames import called_from_a_frame, with_a_frame
from capture.entry.hook import Config
from capture.entry.steering import named_after
from capture.entry.storing import Store
from capture.entry.translate import Backend
from capture.errors import CaptureError, Location, Unsupported
from capture.evaluator.foreign_marks import is_left_out
from capture.evaluator.stepping import as_it_was, in_steps
from capture.log import BreakRecord, FallbackRecord, GraphRecord, Log, RecompileRecord, Record
from capture.options import Options
from capture.reasons import Kind, Reason

LOG = state.PROCESS.log
"""The records of this process, through all uses of ``optimize``."""


def eager(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
    """The backend that compiles nothing."""
    return gm.forward


def optimize(
    backend: Backend | str = eager,
    *,
    nopython: bool = False,
    dynamic: bool | None = None,
    strict: bool = False,
    recompile_limit: int = 8,
    log: Log | None = None,
    options: Options | None = None,
    store: Store | None = None,
) -> Callable[[Any], Any]:
    """Captures what the decorated function, method or module runs, and gives its graphs to ``backend``.

    ``backend(graph_module, example_inputs)`` returns a callable that takes the same inputs and returns a sequence of
    tensors.  ``options`` are all settings at once, in the place of the four before them.
    ``store`` keeps what was captured for other processes, which take it up without capturing (see the README).
    """
    if isinstance(backend, str):
        if backend != "eager":
            raise ValueError(f"no backend is called {backend!r} here: give a callable, or 'eager'")
        backend = eager
    if isinstance(backend, torch.nn.Module) or not callable(backend):
        raise TypeError(
            f"a backend is a callable (gm, example_inputs) -> callable, not {backend!r}: optimize(backend)(f)"
        )
    if options is None:
        options = Options(nopython=nopython, dynamic=dynamic, strict=strict, recompile_limit=recompile_limit)
    if not isinstance(options, Options):
        raise TypeError(f"options is {options!r}; give capture.Options(nopython=True), for one")
    config = Config(backend, options, state.PROCESS.log if log is None else log, store)
    state.PROCESS.configurations.add(config)
    return functools.partial(_region, config)


def _region(config: Config, target: object, *rest: object, **named: object) -> Any:
    """The callable that captures what `target` runs: of the same kind, as far as one can be."""
    if rest or named:
        raise TypeError("optimize() gives a decorator, which takes one function: optimize(backend)(f)(*args)")
    if isinstance(target, torch.nn.Module):
        return CapturedModule(target, _module_region(config, target))
    _refuse_program(target, "optimize")
    if isinstance(target, type) or not callable(target):
        raise TypeError(f"optimize() takes a function, a method or a module, not {target!r}")
    stepped = in_steps(config, target, _left_to_be_stepped(config, target))
    if stepped is not None:
        return stepped
    return named_after(_engine.Region(with_a_frame(target), config), target)


def _module_region(config: Config, module: torch.nn.Module) -> Callable[..., Any]:
    """The region for a module: calls the module itself, as programs replace ``__call__`` of its class."""
    stepped = in_steps(config, module, _left_to_be_stepped(config, module.forward), like=module.forward)
    region = stepped or _engine.Region(with_a_frame(module), config)
    return named_after(region, module)


def _refuse_program(target: object, name: str) -> None:
    """Raises for a program of torch.export, which can be called as far as Python knows, and raises when it is."""
    if any(cls.__name__ == "ExportedProgram" for cls in type(target).__mro__):
        raise TypeError(
            f"{name}() takes a function, a method or a module, not an ExportedProgram: give program.module()"
        )


def _refuse_arguments(name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    if args or kwargs:
        raise TypeError(f"{name} takes the function alone, and its arguments in a second call: {name}(f)(*args)")


def _left_to_be_stepped(config: Config, target: Any) -> Callable[[], None]:
    """A function that says once that a suspended frame is not captured, or refuses it where all has to be."""

    @functools.cache
    def note() -> None:
        code = inspect.unwrap(target).__code__
        location = Location(code.co_filename, code.co_firstlineno, code.co_qualname)
        explanation = f"CPython steps `{code.co_qualname}`; what it calls is captured"
        reason = Reason(Kind.COROUTINE, explanation, "compute in functions that it calls")
        if config.nopython:
            raise Unsupported(reason, location)
        config.log.add(FallbackRecord(location, reason))

    return note


def as_written(function: object) -> Any:
    """The object that was given to ``optimize``, for a function that came from it; any other object itself."""
    if isinstance(function, _engine.Region):
        return called_from_a_frame(function.function) or function.function
    if isinstance(function, CapturedModule):
        return function.module
    stepped = as_it_was(function)
    return function if stepped is None else stepped


class CapturedModule:
    """Calls a module with capture on; everything else is the module's own."""

    def __init__(self, module: torch.nn.Module, region: Callable[..., object]) -> None:
        self.__dict__.update(module=module, region=region)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.region(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["module"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.module, name, value)

    def __repr__(self) -> str:
        return f"CapturedModule({self.module!r})"


def run(function: Any) -> Any:
    """Uses what was captured and captures nothing more: what no version fits runs in CPython."""

    @functools.wraps(function)
    def run_known(*args: Any, **kwargs: object) -> Any:
        with stance.only_what_was_captured():
            return function(*args, **kwargs)

    return run_known


def reset() -> None:
    """Forgets every captured version, and every decision to leave a function alone."""
    for config in list(state.PROCESS.configurations):
        config.forget()
    state.PROCESS.log.clear()


# -- looking ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Explanation:
    """The records of one call, and its result."""

    result: Any
    graphs: tuple[GraphRecord, ...]
    breaks: tuple[BreakRecord, ...]
    recompilations: tuple[RecompileRecord, ...]
    fallbacks: tuple[FallbackRecord, ...]

    def __str__(self) -> str:
        operators = sum(len(graph.operators) for graph in self.graphs)
        lines = [f"{len(self.graphs)} graphs, {operators} operators, {len(self.breaks)} breaks"]
        for number, graph in enumerate(self.graphs, 1):
            lines.append(f"graph {number}, {graph.location}: {', '.join(graph.operators)}")
            lines.append(f"  {len(graph.guards)} guards, captured in {graph.capture_seconds:.3f} s")
        for broken in self.breaks:
            lines += [
                f"break ({broken.reason.kind}), {broken.location}: {broken.reason.explanation}",
                f"    {broken.location.source}",
            ]
        lines += [f"left to CPython, {left.location}: {left.reason.explanation}" for left in self.fallbacks]
        return "\n".join(lines)


def explain(
    function: object, *args: object, dynamic: bool | None = None, strict: bool = False, **kwargs: object
) -> Callable[..., Explanation]:
    """``explain(f)(*args)`` runs ``f`` captured anew, and tells what happened."""
    _refuse_arguments("explain", args, kwargs)
    _refuse_program(function, "explain")

    def run(*args: object, **kwargs: object) -> Explanation:
        log = Log()
        result = optimize(eager, dynamic=dynamic, strict=strict, log=log)(as_written(function))(*args, **kwargs)
        seen = log.records()

        def of_kind(kind: type[Record]) -> tuple[Any, ...]:
            return tuple(record for record in seen if isinstance(record, kind))

        kinds = (GraphRecord, BreakRecord, RecompileRecord, FallbackRecord)
        return Explanation(result, *(of_kind(kind) for kind in kinds))

    return run


def export(
    function: object, *args: object, strict: bool = False, **kwargs: object
) -> Callable[..., tuple[fx.GraphModule, tuple[str, ...]]]:
    """``export(f)(*args)`` gives the one graph of ``f`` and the guards it relies on, or raises ``Unsupported``."""
    _refuse_arguments("export", args, kwargs)
    _refuse_program(function, "export")

    def run(*args: object, **kwargs: object) -> tuple[fx.GraphModule, tuple[str, ...]]:
        graphs: list[fx.GraphModule] = []

        def keep(gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
            graphs.append(gm)
            return gm.forward

        log = Log()
        # A number has to be read after the graph, which is not part of it.
        options = Options(nopython=True, strict=strict, capture_scalar_outputs=False)
        optimize(keep, options=options, log=log)(as_written(function))(*args, **kwargs)
        if len(graphs) != 1:
            raise not_one_graph(function, len(graphs))
        record = next(record for record in log.records() if isinstance(record, GraphRecord))
        return graphs[0], record.guards

    return run


def not_one_graph(function: object, count: int) -> CaptureError:
    """The error where one graph was wanted and there are none, or several."""
    if is_left_out(function):
        return CaptureError(f"{function} is disabled, so it has no graph: remove `disable` to export it")
    return CaptureError(
        f"{function} gave {count} graphs where one was wanted: it runs no tensor operation, or runs several frames"
    )


def records() -> tuple[Record, ...]:
    """The records of all that happened so far, oldest first."""
    return state.PROCESS.log.records()
