"""Serves the ``torch.compile`` calls of programs that know nothing of us.

``install`` puts our ``compile`` where such programs look for one: ``torch.compile``, which ``nn.Module.compile`` and
libraries look up when they are called, and the few functions of ``torch.compiler`` that steer it.  ``uninstall`` puts
everything back.  Must not know how anything is compiled.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from compile_api import controls
from compile_api.backends import CompilerFn, describe_backends
from compile_api.compile import compile
from compile_api.errors import CompileApiError
from compile_api.options import MODES, SETTABLE
from compile_api.report import Report, report
from compile_api.reset import reset


@dataclass
class Served:
    """What is in place of torch's functions, what was there before, and what was compiled meanwhile."""

    before: dict[tuple[str, str], Any] = field(default_factory=dict)
    compiled: list[Any] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


# The one place that outlives a call: torch's own module is process-wide, and so is what we put into it.
_SERVED = Served()


def install() -> None:
    """From now on ``torch.compile`` is ours, in the whole process.  A second call changes nothing."""
    with _SERVED.lock:
        if _SERVED.before:
            return
        for (module, name), replacement in _replacements().items():
            namespace = vars(_module(module))
            if name in namespace:
                _SERVED.before[module, name] = namespace[name]
                namespace[name] = replacement


def uninstall() -> None:
    """``torch.compile`` is torch's again.  What was compiled in between stays as it is."""
    with _SERVED.lock:
        for (module, name), original in _SERVED.before.items():
            vars(_module(module))[name] = original
        _SERVED.before.clear()
        _SERVED.compiled.clear()


def served_reports() -> tuple[Report, ...]:
    """The reports of everything that ``torch.compile`` was called with since ``install``."""
    return tuple(report(each) for each in _SERVED.compiled)


def _module(name: str) -> Any:
    return torch if name == "torch" else torch.compiler


def _replacements() -> Mapping[tuple[str, str], Callable[..., Any]]:
    return {
        ("torch", "compile"): serve,
        ("torch.compiler", "compile"): serve,
        ("torch.compiler", "reset"): reset,
        ("torch.compiler", "disable"): _disable,
        ("torch.compiler", "allow_in_graph"): controls.allow_in_graph,
        ("torch.compiler", "assume_constant_result"): controls.assume_constant_result,
        ("torch.compiler", "set_stance"): controls.set_stance,
        ("torch.compiler", "cudagraph_mark_step_begin"): controls.step_begin,
        ("torch.compiler", "list_backends"): _listed,
    }


def _disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    return controls.disable(fn, recursive=recursive, reason=reason)


def _listed(*_: Any, **__: Any) -> list[str]:
    return sorted(entry.name for entry in describe_backends() if not entry.missing)


def serve(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | CompilerFn = "inductor",
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    disable: bool = False,
    **unknown: Any,
) -> Any:
    """What stands for ``torch.compile``: ours, forgiving where the program asks for what only torch's compiler has."""
    asked: dict[str, Any] = {"fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "disable": disable}
    again = partial(serve, backend=backend, options=options, **asked, **unknown)
    if model is None:
        return again
    for name in unknown:
        warnings.warn(f"torch.compile's argument {name!r} has no meaning for compile-api and is left out", stacklevel=2)
    if mode is not None and mode not in MODES:
        raise CompileApiError(f"torch.compile was called with mode={mode!r}; modes are {', '.join(MODES)}")
    compiled = compile(model, backend=backend, options=_known(options), **asked)
    if not disable:
        _SERVED.compiled.append(compiled)
    return compiled


def _known(options: Mapping[str, object] | None) -> dict[str, object]:
    """The options that exist here too; torch's own names for the same settings are understood."""
    chosen: dict[str, object] = {}
    for name, value in (options or {}).items():
        ours = _SAME_SETTING.get(name, name)
        if ours in SETTABLE:
            chosen[ours] = value
        else:
            warnings.warn(f"torch.compile's option {name!r} has no counterpart here and is left out", stacklevel=3)
    return chosen


_SAME_SETTING = {"triton.cudagraphs": "cuda_graphs", "max_autotune": "max_autotune", "trace.enabled": "trace"}
