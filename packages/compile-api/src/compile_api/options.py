"""Modes and overrides, resolved once into one frozen object.  Must not know what the engines do with it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from compile_api.errors import BadOption


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Everything that was asked for.  The public ``options`` mapping may set any field from ``cuda_graphs`` on."""

    fullgraph: bool = False
    """A graph break is an error instead of a record."""
    dynamic: bool | None = None
    """Sizes are symbols from the start (True), never (False), or once they were seen to vary (None)."""
    cuda_graphs: bool = False
    """Kernels on a CUDA device are recorded once and replayed."""
    max_autotune: bool = False
    """Candidate kernels are timed instead of chosen by rule."""
    trace: bool = False
    """Each graph leaves a folder with its stages, kernels and a script that reruns it."""
    min_cut: bool = True
    """Backward recomputes what is cheap instead of saving it."""
    strict: bool = False
    """A mistake inside the compiler is raised instead of worked around; ``COMPILE_API_STRICT=1`` does the same."""


MODES: Mapping[str, Mapping[str, bool]] = {
    "default": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"cuda_graphs": True, "max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}

_SETTABLE = tuple(f.name for f in fields(CompileOptions) if f.name not in ("fullgraph", "dynamic"))


def resolve(
    *, fullgraph: bool, dynamic: bool | None, mode: str | None, options: Mapping[str, object] | None
) -> CompileOptions:
    """The options that a mode and overrides amount to."""
    if mode is not None and mode not in MODES:
        raise BadOption(f"there is no mode {mode!r}{_nearest(mode, MODES)}; modes are {', '.join(MODES)}")
    strict = os.environ.get("COMPILE_API_STRICT", "0") not in ("", "0")
    chosen = replace(CompileOptions(fullgraph, dynamic, strict=strict), **MODES[mode or "default"])
    for name, value in (options or {}).items():
        if name not in _SETTABLE:
            raise BadOption(
                f"there is no option {name!r}{_nearest(name, _SETTABLE)}; options are {', '.join(_SETTABLE)}"
            )
        if not isinstance(value, bool):
            raise BadOption(f"option {name!r} is True or False, not {value!r}")
        chosen = replace(chosen, **{name: value})
    return chosen


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
