"""Backends by name: a table that built-in backends, third parties and users fill alike.

A backend takes a graph and example inputs and returns a callable.  Built-in ones are made from a ``Context``, so that
they can see the options and write to the ledger; a plain function with the public contract is one too.
"""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

import torch

from compile_api.errors import BackendNotReady, UnknownBackend
from compile_api.ledger import Ledger
from compile_api.options import CompileOptions
from compile_api.progress import Progress

CompilerFn: TypeAlias = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Context:
    """What a backend may look at and write to while it compiles for one function."""

    options: CompileOptions
    ledger: Ledger
    progress: Progress


@dataclass(frozen=True, slots=True)
class Backend:
    """A registered backend.  ``needs`` are modules that must be importable; ``install`` says how to get them."""

    name: str
    make: Callable[[Context], CompilerFn]
    note: str = ""
    needs: tuple[str, ...] = ()
    install: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)


_BACKENDS: dict[str, Backend] = {}


def backend(
    name: str, *, note: str, needs: Sequence[str] = (), install: str = "", aliases: Sequence[str] = ()
) -> Callable[[Callable[[Context], CompilerFn]], Callable[[Context], CompilerFn]]:
    """Registers a backend made from a context: the decorator of the built-in ones."""

    def register(make: Callable[[Context], CompilerFn]) -> Callable[[Context], CompilerFn]:
        for each in (name, *aliases):
            _BACKENDS[each] = Backend(each, make, note, tuple(needs), install)
        return make

    return register


@overload
def register_backend(function: CompilerFn, *, name: str | None = None) -> CompilerFn: ...
@overload
def register_backend(function: None = None, *, name: str | None = None) -> Callable[[CompilerFn], CompilerFn]: ...


def register_backend(function: CompilerFn | None = None, *, name: str | None = None) -> Any:
    """Makes ``function(gm, example_inputs) -> callable`` a backend under its own or the given name."""

    def register(compiler: CompilerFn) -> CompilerFn:
        chosen = name if name is not None else str(getattr(compiler, "__name__", compiler))
        _BACKENDS[chosen] = Backend(chosen, lambda ctx: compiler, (compiler.__doc__ or "").strip().partition("\n")[0])
        return compiler

    return register if function is None else register(function)


def list_backends() -> list[str]:
    """The names that can be used on this machine now."""
    return sorted(name for name, entry in _BACKENDS.items() if not entry.missing)


def describe_backends() -> tuple[Backend, ...]:
    """Every registered backend, ready or not, with what it lacks."""
    return tuple(_BACKENDS[name] for name in sorted(_BACKENDS))


def lookup(name_or_function: str | CompilerFn) -> Backend:
    """The backend meant by the ``backend`` argument of ``compile``."""
    if callable(name_or_function):
        return Backend(getattr(name_or_function, "__name__", "custom"), lambda ctx: name_or_function)
    found = _BACKENDS.get(name_or_function)
    if found is None:
        close = difflib.get_close_matches(str(name_or_function), _BACKENDS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UnknownBackend(
            f"there is no backend {name_or_function!r}{hint}; ready here: {', '.join(list_backends())}"
        )
    if found.missing:
        raise BackendNotReady(f"backend {found.name!r} needs {', '.join(found.missing)}: {found.install}")
    return found
