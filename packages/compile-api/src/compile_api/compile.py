"""``compile``: the decorator and function form.  Resolves what was asked for and hands it to capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, overload

import torch

import capture
from compile_api.backends import CompilerFn, Context, lookup
from compile_api.ledger import Ledger
from compile_api.module import compiled_module
from compile_api.options import resolve
from compile_api.progress import Progress

Target = TypeVar("Target", bound=Callable[..., Any])


@overload
def compile(
    model: Target,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | CompilerFn = ...,
    mode: str | None = ...,
    options: Mapping[str, object] | None = ...,
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
    options: Mapping[str, object] | None = ...,
    disable: bool = ...,
) -> Callable[[Target], Target]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | CompilerFn = "inductor",
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    disable: bool = False,
) -> Any:
    """The same function or module, compiled when it is first called.

    fullgraph: a graph break is an error instead of a record.
    dynamic: sizes are symbols from the start (True), never (False), or once they were seen to vary (None).
    backend: a name from ``list_backends()`` or a function ``(gm, example_inputs) -> callable``.
    mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
    options: overrides of single settings, see ``CompileOptions``.
    disable: leave the function as it is.
    """
    chosen = resolve(fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options)
    entry = lookup(backend)
    if disable:
        return model if model is not None else lambda function: function
    again = partial(
        compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
    )
    if model is None:
        return again
    if not callable(model):
        raise TypeError(f"compile takes a function or a module, not {type(model).__name__}")
    ctx = Context(chosen, Ledger(), Progress.for_terminal())
    optimized = capture.optimize(
        entry.make(ctx), nopython=fullgraph, dynamic=dynamic, strict=chosen.strict, log=ctx.ledger.frames
    )
    is_module = isinstance(model, torch.nn.Module)
    call = optimized(model.__call__ if is_module else model)
    call.ledger = ctx.ledger
    return compiled_module(model, call, again) if is_module else call


def optimize(backend: str | CompilerFn = "inductor", *, nopython: bool = False, dynamic: bool | None = None) -> Any:
    """The older spelling: ``optimize("inductor")(function)``."""
    return compile(backend=backend, fullgraph=nopython, dynamic=dynamic)
