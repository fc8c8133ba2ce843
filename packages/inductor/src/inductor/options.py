"""The options of compiling a graph, in one frozen object."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import Literal, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Options:
    """The options of compiling a graph.  ``Options.read`` makes them from a mapping and refuses unknown names."""

    trace: bool | str = False
    """Writes a folder per graph with every stage's text, the kernels, the wrapper and a ``run.py``: True for a folder
    below the current one, or the folder's path.  ``INDUCTOR_TRACE`` does the same."""

    cache_dir: str | None = None
    """The folder of built kernels.  Default: ``$COMPILE_API_CACHE``, or ``compile-api`` in the user's cache folder."""

    cache_bytes: int = 1 << 30
    """The most bytes that the cache may hold; beyond it the entries unused for longest are removed."""

    compiler: str | None = None
    """The C++ compiler.  Default: ``$CXX``, else g++, else clang++."""

    cpp_flags: tuple[str, ...] = ()
    """Flags added to the compiler's."""

    vector_bytes: int | None = None
    """The size of a vector register that kernels are written for.  Default: that of the machine."""

    build_processes: int | None = None
    """The number of compilers that run at once.  Default: one per core."""

    max_autotune: bool = False
    """True to time launch shapes of kernels on the GPU; the fastest are kept in the cache."""

    random: Literal["eager", "fused"] = "eager"
    """The source of random numbers: torch's own stream, with eager's values; or kernels that compute them where they
    are used, from a seed that torch's generator draws once per call: other values, as reproducible by
    ``torch.manual_seed``, without memory for masks."""

    labels: bool = False
    """True to show each run of a kernel to ``torch.profiler`` under the kernel's name; costs a little each time."""

    check_inputs: bool = True
    """True to check at each call that inputs have the sizes, strides and dtypes that the code was made for."""

    store_graphs: bool = False
    """True to keep compiled graphs in the cache, where later processes take them up without running a stage."""

    verify: bool = False
    """True to check the result of each stage against the rules of the IR before the next one begins, for people who
    work on this package; a broken rule is an ``InvalidIR``.  ``INDUCTOR_VERIFY=1`` does the same."""

    fallback: bool = True
    """True to run a graph that cannot be built operator by operator, with a warning; False to raise instead."""

    @staticmethod
    def read(options: Options | Mapping[str, object] | None) -> Options:
        """The options as an object, completed from the environment where nothing was given."""
        if isinstance(options, Options):
            chosen = options
        elif not isinstance(options, Mapping | None):
            raise TypeError(f"options is a mapping of names to values or an Options, not {options!r}")
        else:
            given = dict(options or {})
            known = {field.name for field in fields(Options)}
            if unknown := sorted(set(given) - known):
                raise TypeError(f"unknown option {', '.join(unknown)}; known are {', '.join(sorted(known))}")
            chosen = Options(**given)  # type: ignore[arg-type]
        for name, hint in _hints().items():
            _check(name, getattr(chosen, name), hint)
        if not chosen.trace and os.environ.get("INDUCTOR_TRACE", "0") not in ("", "0"):
            value = os.environ["INDUCTOR_TRACE"]
            chosen = replace(chosen, trace=True if value == "1" else value)
        if not chosen.verify and os.environ.get("INDUCTOR_VERIFY", "0") not in ("", "0"):
            chosen = replace(chosen, verify=True)
        return chosen

    def cache_folder(self) -> Path:
        """The folder of the cache, by the option, the environment, or the user's usual place."""
        if self.cache_dir is not None:
            return Path(self.cache_dir).expanduser()
        if folder := os.environ.get("COMPILE_API_CACHE"):
            return Path(folder).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "compile-api"


@functools.cache
def _hints() -> dict[str, object]:
    return get_type_hints(Options)


def _check(name: str, value: object, hint: object) -> None:
    """Raises where the value of an option does not have the type of its annotation."""
    choices = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if not any(_is(value, choice) for choice in choices):
        wanted = " or ".join(_words(choice) for choice in choices)
        error = ValueError if get_origin(hint) is Literal else TypeError
        raise error(f"option {name} is {wanted}, not {value!r}")


def _is(value: object, choice: object) -> bool:
    if get_origin(choice) is Literal:
        return value in get_args(choice)
    if get_origin(choice) is tuple:
        return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    return type(value) is choice or (choice is str and isinstance(value, str))


def _words(choice: object) -> str:
    if get_origin(choice) is Literal:
        return " or ".join(f'"{each}"' for each in get_args(choice))
    return _WORDS[choice]


_WORDS: Mapping[object, str] = {
    bool: "True or False",
    int: "an integer",
    str: "a string",
    tuple[str, ...]: "a tuple of strings",
    type(None): "None",
}
