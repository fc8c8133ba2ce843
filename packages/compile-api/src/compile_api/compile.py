"""``compile``: the decorator and function form.  Resolves what was asked for and hands it to capture."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, overload

import torch

import capture
from capture import inform
from compile_api.backends import CompilerFn, Context, lookup
from compile_api.ledger import GraphRefused, Ledger
from compile_api.logs import follow
from compile_api.module import SameModule, compiled_module
from compile_api.observing import keeping, keeps, observed, spares_single_runs
from compile_api.options import Overrides, resolve, tell_of_unused
from compile_api.progress import Progress
from compile_api.state import STATE
from compile_api.tested import warn_of_newer
from compile_api.torch_versions import call_impl_of, compiled_call_impl_of
from compile_api.warm_start.artefacts import Artefacts
from compile_api.warm_start.store import FrameStore

Target = TypeVar("Target", bound=Callable[..., Any])


@overload
def compile(
    model: Target,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | CompilerFn = ...,
    mode: str | None = ...,
    options: Overrides = ...,
    disable: bool = ...,
) -> Target: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | CompilerFn = ...,
    mode: str | None = ...,
    options: Overrides = ...,
    disable: bool = ...,
) -> Callable[[Target], Target]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | CompilerFn = "inductor",
    mode: str | None = None,
    options: Overrides = None,
    disable: bool = False,
) -> Any:
    """A function or module that does what `model` does, and is compiled when it is first called.

    fullgraph: a graph break is an error instead of a record.
    dynamic: sizes are symbols from the start (True), never (False), or once they were seen to vary (None).
    backend: a name from ``list_backends()`` or a function ``(gm, example_inputs) -> callable``.
    mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
    options: overrides of single settings by name, or ``CompileOptions``.
    disable: leave the function as it is.
    """
    warn_of_newer(str(torch.__version__), inform, STATE.newer_torch_warned)
    chosen = resolve(fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options)
    entry = lookup(backend)
    if disable:
        return model if model is not None else lambda function: function
    # The same call for another function: for the decorator, for copies, and for what is pickled.
    again = partial(
        compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
    )
    if model is None:
        return again
    if isinstance(model, staticmethod | classmethod):
        return type(model)(again(model.__func__))
    tell_of_unused(options, backend)
    model = _target(model)
    artefacts = Artefacts() if keeps(entry, chosen) else None
    ctx = Context(chosen, Ledger(), Progress.for_terminal(), guarded=True, artefacts=artefacts)
    follow(ctx.ledger)
    _tell_of_script(model, ctx.ledger)
    store = None if artefacts is None else FrameStore(chosen, entry.name)
    called: Any = observed(entry, ctx) if store is None else keeping(entry, ctx, store)
    called.spares_single_runs = spares_single_runs(entry, chosen)
    optimized = _captured_for(called, ctx, store)
    if isinstance(model, type):
        return _compiled_class(model, optimized, ctx.ledger)
    is_module = isinstance(model, torch.nn.Module)
    call = optimized(model).region if is_module else optimized(model)
    # ``report`` looks for the one, pickling for the other.
    vars(call).update(ledger=ctx.ledger, recompile=again)  # a region's own, where other attributes are the function's
    _answer_as(call, model)
    return compiled_module(model, call, again) if is_module else call


def _captured_for(backend: Any, ctx: Context, store: capture.Store | None) -> Any:
    """A decorator that captures with these options."""
    chosen = ctx.options
    return capture.optimize(
        backend,
        nopython=chosen.fullgraph,
        dynamic=chosen.dynamic,
        strict=chosen.strict,
        recompile_limit=chosen.recompile_limit,
        log=ctx.ledger.frames,
        store=store,
    )


_OF_FUNCTIONS = ("__code__", "__globals__", "__closure__", "__defaults__", "__kwdefaults__")


def _answer_as(call: Any, model: Any) -> None:
    """Gives a compiled function the attributes by which tools that read functions (torch.export, torch.jit, tracebacks)
    find what it was made of."""
    is_region: bool = isinstance(call, capture.Region)
    if not is_region:
        return
    written = model.forward if isinstance(model, torch.nn.Module) else model
    for name in _OF_FUNCTIONS:
        if hasattr(written, name):
            setattr(call, name, getattr(written, name))
    vars(call)["_torchdynamo_orig_callable"] = written
    call.__prepare_scriptable__ = lambda: written  # torch.jit.script asks; it reads source, which a region has none of


_SCRIPTED = (
    "torch.jit made a program of TorchScript out of it, which has no Python to capture; "
    "compile the function or module that it was made of"
)


def _target(model: object) -> Any:
    """The function or module to compile; of a module that is compiled already, the module itself: the new arguments
    hold."""
    if not callable(model):
        raise TypeError(f"compile takes a function or a module, not {type(model).__name__}{_instead(model)}")
    return model._orig_mod if isinstance(model, SameModule) else model


def _tell_of_script(model: object, ledger: Ledger) -> None:
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        ledger.add(GraphRefused("capture", _SCRIPTED, "TorchScript runs it"))


def _instead(model: object) -> str:
    if isinstance(model, property):
        return ": put it below @property, around the function"
    return ": options are given by name, as in compile(mode=...)" if isinstance(model, str) else ""


def _reduced(region: Any) -> Any:
    """The pickled form of a compiled function: its name where that leads to it, else a call that compiles it again."""
    name = str(getattr(region, "__qualname__", ""))  # partials have none
    found: Any = sys.modules.get(region.__module__)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is region:
        return name
    if not hasattr(region, "recompile"):
        raise TypeError(f"{name or region} was compiled by capture alone, which cannot be pickled")
    return region.recompile, (capture.as_written(region),)


copyreg.pickle(capture.Region, _reduced)


def _compiled_class(cls: type, optimized: Callable[[Any], Any], ledger: Ledger) -> type:
    """The class itself, whose instances are compiled where they are called."""
    name = "_call_impl" if issubclass(cls, torch.nn.Module) else "__call__"
    if name not in dir(cls) or (name == "__call__" and cls.__call__ is type.__call__):
        raise TypeError(f"instances of {cls.__name__} cannot be called, so there is nothing to compile")
    call = optimized(getattr(cls, name) if name in vars(cls) else _inherited(cls, name))
    vars(call)["ledger"] = ledger
    setattr(cls, name, call)
    return cls


def _inherited(cls: type, name: str) -> Callable[..., Any]:
    """A method that calls the one of the bases by this name, looked up in each call: programs replace it."""

    @wraps(getattr(cls, name))
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(super(cls, self), name)(*args, **kwargs)

    return call


def compile_in_place(module: torch.nn.Module, **how: Any) -> None:
    """Compiles what calling ``module`` does, without a second object: ``nn.Module.compile`` by us.

    Takes the arguments of ``compile``.  Copies and pickles of the module are not compiled, as with torch's.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"compile_in_place takes a module, not {type(module).__name__}; use compile for functions")
    compiled_call_impl_of(module)  # raises where modules have no such door
    module._compiled_call_impl = compile(call_impl_of(module), **how)


def backend_function(
    backend: str | CompilerFn = "inductor", *, mode: str | None = None, **options: object
) -> CompilerFn:
    """A backend as the plain function ``(gm, example_inputs) -> callable`` that other tools take.

    ``mode`` and ``options`` are those of ``compile``.  torch's own compiler finds the default one as
    ``backend="compile_api"``.
    """
    chosen = resolve(fullgraph=False, dynamic=None, mode=mode, options=options)
    ctx = Context(chosen, Ledger(), Progress())
    follow(ctx.ledger)
    return observed(lookup(backend), ctx)


def compile_api(
    gm: torch.fx.GraphModule,
    example_inputs: list[object],
    *,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
) -> Callable[..., Any]:
    """The entry point of torch's group ``torch_dynamo_backends``: graphs of its capture, compiled by us.  ``mode`` and
    ``options`` come from the call of ``torch.compile``."""
    return backend_function("inductor", mode=mode, **(options or {}))(gm, example_inputs)


def optimize(backend: str | CompilerFn = "inductor", *, nopython: bool = False, dynamic: bool | None = None) -> Any:
    """The older spelling: ``optimize("inductor")(function)``."""
    return compile(backend=backend, fullgraph=nopython, dynamic=dynamic)
