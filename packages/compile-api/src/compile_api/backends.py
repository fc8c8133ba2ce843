"""Backends by name: a table of the built-in ones, and the functions that third parties and users register beside them.

A backend takes a graph and example inputs and returns a callable.  Built-in ones are made from a ``Context``, so that
they can see the options and write to the ledger; a plain function with the public contract is one too.  Distributions
add theirs through the entry-point group ``compile_api.backends``, read when a name is not known yet.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, overload

import torch

from compile_api.debug_folder import GraphFolder
from compile_api.errors import BackendNotReady, UnknownBackend
from compile_api.ledger import Ledger
from compile_api.options import CompileOptions, nearest
from compile_api.progress import Progress
from compile_api.state import STATE
from compile_api.warm_start.artefacts import Artefacts

CompilerFn: TypeAlias = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]

ENTRY_POINTS = "compile_api.backends"


@dataclass(frozen=True, slots=True)
class Context:
    """The options, ledger and folders that a backend may use while it compiles for one function."""

    options: CompileOptions
    ledger: Ledger
    progress: Progress
    folder: GraphFolder | None = None
    """The folder in which the graph leaves what a person wants to see, if that was asked for."""
    guarded: bool = False
    """True if somebody checks the inputs of each call before the compiled graph gets them."""
    artefacts: Artefacts | None = None
    """The keys of compiled graphs, where these are kept for other processes."""


def nothing_lacks() -> str:
    """No obstacle, for a backend that needs no more than its modules."""
    return ""


@dataclass(frozen=True, slots=True)
class Backend:
    """A registered backend: its nature, what it takes, and what it needs.

    ``needs`` are modules that must be importable and ``install`` says how to get them, or why nobody can;
    ``lacks`` is asked once they are there, for what else stands in the way (a version, a device), and answers with a
    sentence or nothing.
    """

    name: str
    make: Callable[[Context], CompilerFn]
    note: str = ""
    needs: tuple[str, ...] = ()
    install: str = ""
    devices: str = "CPU, GPU"
    training: bool = True
    lacks: Callable[[], str] = nothing_lacks
    function: CompilerFn | None = None
    """The function with the public contract that it was made of, if there was one."""
    spares_single_runs: bool = False
    """True if it takes so long that a graph which can run only once is better run as it is."""
    backward_later: Callable[[Context], CompilerFn] | None = None
    """Compiles the backward graphs of what another process compiled: with it, compiled graphs can be kept."""

    @property
    def missing(self) -> tuple[str, ...]:
        """The modules that cannot be imported here."""
        return tuple(name for name in self.needs if importlib.util.find_spec(name) is None)

    @property
    def obstacle(self) -> str:
        """The reason why it cannot be used here, with what to do about it; empty if it can."""
        if self.missing:
            return f"needs {', '.join(self.missing)}: {self.install}"
        return self.lacks()

    def __str__(self) -> str:
        kind = "inference and training" if self.training else "inference"
        state = f"not ready: {self.obstacle}" if self.obstacle else "ready"
        return f"{self.name} ({kind}; {self.devices}): {self.note}; {state}"


_BUILT_IN: dict[str, Backend] = {}


def backend(
    name: str,
    *,
    note: str,
    needs: Sequence[str] = (),
    install: str = "",
    aliases: Sequence[str] = (),
    devices: str = "CPU, GPU",
    training: bool = True,
    lacks: Callable[[], str] = nothing_lacks,
    spares_single_runs: bool = False,
    backward_later: Callable[[Context], CompilerFn] | None = None,
) -> Callable[[Callable[[Context], CompilerFn]], Callable[[Context], CompilerFn]]:
    """Registers a backend made from a context: the decorator of the built-in ones."""

    def register(make: Callable[[Context], CompilerFn]) -> Callable[[Context], CompilerFn]:
        for each in (name, *aliases):
            _BUILT_IN[each] = Backend(
                *(each, make, note, tuple(needs), install, devices, training, lacks),
                spares_single_runs=spares_single_runs,
                backward_later=backward_later,
            )
        return make

    return register


@overload
def register_backend(function: CompilerFn, *, name: str | None = None) -> CompilerFn: ...
@overload
def register_backend(function: None = None, *, name: str | None = None) -> Callable[[CompilerFn], CompilerFn]: ...


def register_backend(function: CompilerFn | None = None, *, name: str | None = None) -> Any:
    """Makes ``function(gm, example_inputs) -> callable`` a backend under its own or the given name.

    Whoever registers a name again, as a cell of a notebook does, replaces what was theirs; built-in ones stay."""

    def register(compiler: CompilerFn) -> CompilerFn:
        if not callable(compiler):
            kind = type(compiler).__name__
            raise TypeError(f"register_backend takes a function (gm, example_inputs) -> callable, not {kind}")
        chosen = name if name is not None else str(getattr(compiler, "__name__", compiler))
        if chosen in _BUILT_IN:
            raise ValueError(f"the backend {chosen!r} is built in: register yours as register_backend(name=...)")
        STATE.backends[chosen] = compiler
        return compiler

    return register if function is None else register(function)


def plain(name: str, compiler: CompilerFn, install: str = "") -> Backend:
    """A function with the public contract, as an entry of the table."""
    note = (compiler.__doc__ or "").strip().partition("\n")[0]
    spares = bool(getattr(compiler, "spares_single_runs", False))
    return Backend(name, lambda ctx: compiler, note, install=install, function=compiler, spares_single_runs=spares)


@cache
def entry_points() -> tuple[importlib.metadata.EntryPoint, ...]:
    """The backends that installed distributions offer; names that are taken stay with whom they belong to."""
    return tuple(point for point in importlib.metadata.entry_points(group=ENTRY_POINTS))


def _from_entry_point(name: str) -> Backend | None:
    for point in entry_points():
        if point.name == name:
            try:
                loaded = point.load()
            except ImportError as error:
                raise BackendNotReady(f"backend {name!r} of {point.value} cannot be imported: {error}") from error
            return loaded if isinstance(loaded, Backend) else plain(name, loaded)
    return None


def _by_path(name: str) -> Backend | None:
    """The backend ``package.module:function``, as the command line names it; None for another name."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return None
    try:
        return plain(name, getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UnknownBackend(f"backend {name!r} cannot be imported: {error}") from error


def list_backends() -> list[str]:
    """The names that can be used on this machine now; ``describe_backends`` says what the others lack."""
    ready = {entry.name for entry in describe_backends() if not entry.obstacle}
    return sorted(ready | {point.name for point in entry_points()})


def describe_backends() -> tuple[Backend, ...]:
    """Every registered backend, ready or not; ``print`` one to read what it is for and what it lacks."""
    return tuple(entry for name in sorted({*_BUILT_IN, *STATE.backends}) if (entry := _registered(name)) is not None)


def _registered(name: str) -> Backend | None:
    function = STATE.backends.get(name)
    return _BUILT_IN.get(name) if function is None else plain(name, function)


def lookup(name_or_function: str | CompilerFn) -> Backend:
    """The backend meant by the ``backend`` argument of ``compile``."""
    if callable(name_or_function):
        return plain(getattr(name_or_function, "__name__", "custom"), name_or_function)
    name = str(name_or_function)
    found = _registered(name) or _from_entry_point(name) or _by_path(name)
    if found is None:
        hint = nearest(str(name_or_function), [*_BUILT_IN, *STATE.backends, *(point.name for point in entry_points())])
        raise UnknownBackend(
            f"there is no backend {name_or_function!r}{hint}; ready here: {', '.join(list_backends())}"
        )
    if found.obstacle:
        raise BackendNotReady(f"backend {found.name!r} {found.obstacle}")
    return found
