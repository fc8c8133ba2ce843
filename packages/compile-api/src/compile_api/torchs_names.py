"""The names of ``torch.compiler`` and ``torch._dynamo`` while their programs are served: our functions under torch's
names.

Each takes the arguments that torch's takes.  What has no meaning for our compiler does nothing, and says so once.

The table is two levels deep: torch's module, then the name in it, to what is put there while a program is served.
``shared`` stands in both modules.  Whatever is not in the table stays torch's.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

import capture
from compile_api import controls
from compile_api.backends import CompilerFn, describe_backends, lookup, register_backend
from compile_api.compile import backend_function
from compile_api.explain import explain, export
from compile_api.messages import Messages
from compile_api.reset import reset
from compile_api.torch_versions import pytree

Replacements = Mapping[str, Mapping[str, Any]]

_EAGER_AT_FIRST = ("eager_then_compile", "aot_eager_then_compile")


def replacements(messages: Messages, serve: Callable[..., Any]) -> Replacements:
    """Our functions by torch's module and the name in it.  ``serve`` is our ``torch.compile``."""
    shared = {
        "reset": reset,
        "disable": _disable,
        "allow_in_graph": _each(capture.allow_in_graph),
        "assume_constant_result": capture.assume_constant_result,
        "list_backends": _listed,
        "set_stance": _stance(messages),
        "is_compiling": torch.compiler.is_compiling,  # torch's own: what is captured asks it, and libraries hear no
        "substitute_in_graph": _decorator(messages, "substitute_in_graph", "our capture evaluates the function itself"),
        "nonstrict_trace": capture.allow_in_graph,
    }
    return {
        "torch": {"compile": serve},
        "torch.compiler": {**shared, "compile": serve, **_of_compiler(messages)},
        "torch._dynamo": {**shared, **_of_dynamo(messages, serve)},
        "torch._dynamo.comptime": {"comptime": Comptime(messages)},
    }


def _of_compiler(messages: Messages) -> Mapping[str, Any]:
    return {
        "cudagraph_mark_step_begin": controls.step_begin,
        "wrap_numpy": wrap_numpy,
        "nested_compile_region": _decorator(
            messages, "nested_compile_region", "the region is captured with its caller"
        ),
        "set_enable_guard_collectives": _nothing(
            messages, "set_enable_guard_collectives", "each rank compiles by itself"
        ),
        "cudagraph_mark_warmup_incomplete": _nothing(
            messages, "cudagraph_mark_warmup_incomplete", "graphs need no mark"
        ),
        "save_cache_artifacts": _nothing(messages, "save_cache_artifacts", "`compile-api cache show` names its folder"),
        "load_cache_artifacts": _nothing(messages, "load_cache_artifacts", "COMPILE_API_CACHE names its folder"),
    }


def _of_dynamo(messages: Messages, serve: Callable[..., Any]) -> Mapping[str, Any]:
    def optimize(
        backend: object = "inductor", *, nopython: bool = False, dynamic: bool | None = None, **more: object
    ) -> Any:
        for name in set(more) - {"disable"}:
            messages.once(f"torch._dynamo.optimize's argument {name!r} has no meaning for compile-api and is left out")
        return serve(backend=backend, fullgraph=nopython, dynamic=dynamic, disable=bool(more.get("disable", False)))

    # What torch's compiler needs and ours does not is accepted, and says once why nothing happens.
    return {
        "optimize": optimize,
        "optimize_assert": functools.partial(optimize, nopython=True),
        "explain": _explain,
        "export": _export(messages),
        "run": _run,
        "graph_break": capture.torchs_graph_break,
        "skip_frame": capture.torchs_graph_break,
        "disallow_in_graph": _each(capture.disallow_in_graph),
        "forbid_in_graph": _each(capture.disallow_in_graph),
        "mark_dynamic": _marking(messages, capture.mark_dynamic),
        "maybe_mark_dynamic": _marking(messages, capture.mark_dynamic),
        "mark_static": _marking(messages, capture.mark_static),
        "mark_static_address": _nothing(messages, "mark_static_address", "parameters keep their addresses without it"),
        "register_backend": _register,
        "lookup_backend": lookup_function,
        "reset_code_caches": reset,
        "error_on_graph_break": capture.error_on_graph_break,
        "patch_dynamo_config": _context(messages, "patch_dynamo_config", "its settings are those of torch's compiler"),
        "dont_skip_tracing": _decorator(messages, "dont_skip_tracing", "our capture looks into every function"),
        "disable_nested_graph_breaks": _decorator(messages, "disable_nested_graph_breaks", "each break is where it is"),
    }


def _disable(fn: object = None, recursive: bool = True, *, reason: str | None = None, **_: object) -> Any:
    return controls.disable(fn, recursive=recursive, reason=reason)


def _explain(function: Any, *args: Any, **kwargs: Any) -> Any:
    return explain(getattr(function, "_orig_mod", function), *args, **kwargs)


def _export(messages: Messages) -> Callable[..., Any]:
    names = {
        "aten_graph", "pre_dispatch", "decomposition_table", "tracing_mode", "constraints", "assume_static_by_default",
        "same_signature", "disable_constraint_solver", "prefer_deferred_runtime_asserts_over_guards",
    }  # fmt: skip

    def exported(function: Any, *args: Any, **kwargs: Any) -> Any:
        for name in [name for name in sorted(names) if kwargs.pop(name, None) is not None]:
            messages.once(f"torch._dynamo.export's argument {name!r} has no meaning for compile-api and is left out")
        return export(function, *args, **kwargs)

    return exported


def _listed(*_: object, **__: object) -> list[str]:
    return sorted(entry.name for entry in describe_backends() if not entry.missing)


def _register(compiler_fn: CompilerFn | None = None, name: str | None = None, tags: object = ()) -> Any:
    if compiler_fn is None:
        return functools.partial(_register, name=name, tags=tags)
    table = sys.modules.get("torch._dynamo.backends.registry")  # torch loads it before it registers anything
    if table is not None and str(getattr(compiler_fn, "__module__", "")).partition(".")[0] == "torch":
        return table.register_backend(compiler_fn, name, tags)
    return register_backend(compiler_fn, name=name)


def lookup_function(backend: Any) -> Any:
    """A backend as torch's table has it: a function of a graph and inputs."""
    if callable(backend):
        return backend
    entry = lookup(backend)
    return entry.function if entry.function is not None else backend_function(backend)


def _run(fn: object = None) -> Any:
    """``torch._dynamo.run``, which is a decorator as well."""
    return capture.run if fn is None else capture.run(fn)


def _each(mark: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The mark as torch's takes it: for a list of functions, too."""

    def marked(fn: object) -> Any:
        return [marked(each) for each in fn] if isinstance(fn, list | tuple) else mark(fn)

    return marked


def _marking(messages: Messages, mark: Callable[..., Any]) -> Callable[..., Any]:
    def marked(t: object, index: object = None, **more: object) -> None:
        for name in (name for name, value in more.items() if value is not None):
            messages.once(f"the argument {name!r} of {mark.__name__} has no meaning for compile-api and is left out")
        if isinstance(t, torch.Tensor):
            mark(t, *(() if index is None else (index,)))
        else:
            messages.once(f"{mark.__name__} of a {type(t).__name__} has no meaning for compile-api: mark tensors")

    return marked


def _stance(messages: Messages) -> Callable[..., Any]:
    def set_stance(
        stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: object = None
    ) -> Any:
        if skip_guard_eval_unsafe:
            messages.once("skip_guard_eval_unsafe has no meaning for compile-api: guards are always checked")
        if force_backend is not None:
            messages.once("force_backend has no meaning for compile-api: each call of compile names its own")
        if stance in _EAGER_AT_FIRST:
            messages.once(f"the stance {stance!r} has no meaning for compile-api: the first call compiles")
            stance = "default"
        return controls.set_stance(stance)

    return set_stance


def _nothing(messages: Messages, name: str, instead: str) -> Callable[..., None]:
    def ignored(*_: object, **__: object) -> None:
        capture.remark(messages, f"{name} has no meaning for compile-api: {instead}")

    ignored.__name__ = name
    return ignored


def _decorator(messages: Messages, name: str, instead: str) -> Callable[..., Any]:
    """A decorator, with arguments or without, that leaves the function as it is."""

    def ignored(*args: object, **options: object) -> Any:
        capture.remark(messages, f"{name} has no meaning for compile-api: {instead}")
        with_arguments = name == "substitute_in_graph" or not (args and callable(args[0]))
        # ``@name`` is given the function, ``@name(...)`` gives a decorator; ``substitute_in_graph(f)`` always has an
        # argument.
        return (lambda function: function) if with_arguments else args[0]

    ignored.__name__ = name
    return ignored


def _context(messages: Messages, name: str, instead: str) -> Callable[..., Any]:
    class Ignored(contextlib.ContextDecorator):
        def __init__(self, *_: object, **__: object) -> None:
            capture.remark(messages, f"{name} has no meaning for compile-api: {instead}")

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    Ignored.__name__ = Ignored.__qualname__ = name
    return Ignored


class Comptime:
    """``comptime``, by which programs look into torch's compiler: as outside of it, and where to look instead."""

    graph_break = staticmethod(capture.torchs_graph_break)

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def __call__(self, fn: object, fallback_fn: Callable[[], Any] = lambda: None) -> Any:
        capture.remark(self._messages, f"comptime has no meaning for compile-api: {_LOOK}")
        return fallback_fn()

    def __getattr__(self, name: str) -> Callable[..., None]:
        # Python and copy ask for special names: those are not there.
        if name.startswith("_"):
            raise AttributeError(name)
        return _nothing(self._messages, f"comptime.{name}", _LOOK)

    def print(self, value: object) -> None:
        print(value)


_LOOK = "`compile_api.explain` and `compile-api walkthrough` show graphs, guards and breaks"


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function over arrays as one over tensors."""

    @functools.wraps(fn)
    def over_tensors(*args: object, **kwargs: object) -> Any:
        args, kwargs = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.numpy(), (args, kwargs))
        return pytree.tree_map(_as_tensor, fn(*args, **kwargs))

    return over_tensors


def _as_tensor(value: object) -> Any:
    return torch.as_tensor(value) if type(value).__module__ == "numpy" else value
