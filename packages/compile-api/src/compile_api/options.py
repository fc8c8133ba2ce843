"""Modes and overrides, resolved once into one frozen object.  Must not know what the engines do with it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias, get_args, get_type_hints

from capture import CaptureWarning, inform
from compile_api.errors import BadOption


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The options of one compiled function.  The public ``options`` mapping may set any field from ``cuda_graphs``
    on."""

    fullgraph: bool = False
    """A graph break is an error instead of a record."""
    dynamic: bool | None = None
    """Sizes are symbols from the start (True), never (False), or once they were seen to vary (None)."""
    cuda_graphs: bool = False
    """Kernels on a CUDA device are recorded once and replayed."""
    cuda_graph_pool_bytes: int | None = None
    """The most that the pool of all recorded graphs may have reserved for another one to be recorded; None is no
    limit."""
    cuda_graph_recordings: int = 16
    """The number of recordings kept of one graph, over all its sizes; further sizes start their kernels one by one."""
    max_autotune: bool = False
    """Candidate kernels are timed instead of chosen by rule."""
    trace: bool | str = False
    """Backend ``inductor`` only: each graph leaves a folder with its stages, kernels and a script that reruns it; True
    or the folder's path."""
    debug: bool | str = False
    """Each graph leaves a folder that shows source, graphs and kernels side by side in ``index.html``, and that
    ``compile-api minify`` takes; True for ``compile_debug`` here, or a path.  ``COMPILE_DEBUG=1`` does the same."""
    labels: bool = False
    """Backend ``inductor`` only: ``torch.profiler`` sees each run of a kernel by its name, on CPUs too; costs a little
    each time."""
    check: bool = False
    """Eager runs beside the first calls of each graph; where results differ, the first operator that is off is named
    and the graph runs eagerly."""
    min_cut: bool = True
    """Backward recomputes what is cheap instead of saving it."""
    equal_layers: bool = True
    """Layers of a graph that are equal but for their weights are traced and compiled once; not with ``cuda_graphs``."""
    strict: bool = False
    """A mistake inside the compiler is raised instead of worked around; ``COMPILE_API_STRICT=1`` does the same."""
    warm_start: bool = False
    """Backend ``inductor`` only: what was captured and compiled is kept on disk, and a later process takes it up
    without tracing; not with ``check``, ``debug``, ``trace`` and ``cuda_graphs``."""
    recompile_limit: int = 8
    """The number of versions of one function that are kept before it is left to Python."""
    providers: tuple[str, ...] = ()
    """Backend ``onnxrt`` only: execution providers in the order of preference, instead of the best that are there."""


MODES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"cuda_graphs": True, "max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}

SETTABLE = tuple(f.name for f in fields(CompileOptions) if f.name not in ("fullgraph", "dynamic"))


Overrides: TypeAlias = "Mapping[str, object] | CompileOptions | None"
"""The values that ``options=`` takes: names and values, or an object, whose fields count where they are not at their
defaults."""


def resolve(*, fullgraph: bool, dynamic: bool | None, mode: str | None, options: Overrides) -> CompileOptions:
    """The options that a mode and overrides amount to."""
    fullgraph, dynamic = _truth("fullgraph", fullgraph, "True or False"), _perhaps("dynamic", dynamic)
    if mode is not None and mode not in MODES:
        raise BadOption(f"there is no mode {mode!r}{nearest(mode, MODES)}; modes are {', '.join(MODES)}")
    if isinstance(options, CompileOptions):
        fullgraph = fullgraph or _truth("fullgraph", options.fullgraph, "True or False")
        dynamic = _perhaps("dynamic", options.dynamic) if dynamic is None else dynamic
    chosen = replace(_from_environment(fullgraph, dynamic), **MODES[mode or "default"])
    for name, value in as_mapping(options).items():
        if name not in SETTABLE:
            raise BadOption(f"there is no option {name!r}{nearest(name, SETTABLE)}; options are {', '.join(SETTABLE)}")
        change: dict[str, Any] = {name: _checked(name, value)}
        chosen = replace(chosen, **change)
    return chosen


def as_mapping(options: Overrides) -> Mapping[str, object]:
    """The overrides by name."""
    if isinstance(options, CompileOptions):
        asked = {name: getattr(options, name) for name in SETTABLE}
        return {name: value for name, value in asked.items() if value != getattr(_DEFAULTS, name)}
    if options is None or isinstance(options, Mapping):
        return options or {}
    raise BadOption(
        f"options are names and values, as in options={{'check': True}} or options=CompileOptions(check=True), "
        f"not {options!r}"
    )


_DEFAULTS = CompileOptions()
_OF_INDUCTOR = ("trace", "labels")


def tell_of_unused(options: Overrides, backend: object) -> None:
    """Warns of options that were asked for and mean nothing to this backend."""
    asked = as_mapping(options)
    unused = [name for name in _OF_INDUCTOR if asked.get(name) and backend != "inductor"]
    if unused:
        named = backend if isinstance(backend, str) else getattr(backend, "__name__", "this one")
        inform(CaptureWarning(f"options {', '.join(unused)} act with backend 'inductor'; {named!r} leaves them out"))


def _truth(name: str, value: object, wanted: str) -> bool:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise BadOption(f"{name} is {wanted}, not {value!r}")


def _perhaps(name: str, value: object) -> bool | None:
    return None if value is None else _truth(name, value, "True, False or None")


def _from_environment(fullgraph: bool, dynamic: bool | None) -> CompileOptions:
    debug = os.environ.get("COMPILE_DEBUG", "0")
    return CompileOptions(
        fullgraph,
        dynamic,
        strict=os.environ.get("COMPILE_API_STRICT", "0") not in ("", "0"),
        debug={"": False, "0": False, "1": True}.get(debug, debug),
    )


def _checked(name: str, value: object) -> Any:
    """``value`` if the option takes its type."""
    hint = get_type_hints(CompileOptions)[name]
    if name == "providers" and isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return tuple(value)
    kinds = get_args(hint) if name != "providers" else ()
    if type(value) in (kinds or (hint,)) and not (type(value) is int and value < 0):
        return value
    raise BadOption(f"option {name!r} is {_WANTED[hint]}, not {value!r}")


_WANTED: Mapping[object, str] = {
    bool: "True or False",
    bool | str: "True, False or a folder's path",
    int: "a whole number from 0 on",
    int | None: "a whole number from 0 on, or None",
    tuple[str, ...]: "a list of names",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that names the closest of what is known, or nothing."""
    close = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
