"""Puts off the import of a package until something of it is used.

torch's tracing toolbox imports torch's own compiler to read a handful of settings from it, which takes longer than
capturing, generating and building a kernel.  A deferred package is in place under its name; its ``__init__`` runs when
anything of it is asked for but a few light submodules.  A program that uses the package finds it whole; a program that
does not never waits for it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any


class DeferredModule(ModuleType):
    """A package whose ``__init__`` has not run.  ``_answers`` are attributes it can supply without running it, and
    ``_light`` the submodules that can be imported without it."""

    _answers: Mapping[str, Any]
    _light: Collection[str]
    _lock: threading.RLock
    _waiting: bool

    def __getattr__(self, name: str) -> Any:
        # Reached for what the module does not have: once loaded, that is an error like any other module's.
        if name.startswith("__") or not self.__dict__.get("_waiting", False):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if name in self._answers:
            return self._answers[name]
        if name in self._light:
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(load(self), name)


def load(module: DeferredModule) -> DeferredModule:
    """Runs the package's ``__init__``, as the first import would have."""
    with module._lock:
        if module._waiting:
            module._waiting = False
            assert module.__spec__ is not None
            assert module.__spec__.loader is not None
            module.__spec__.loader.exec_module(module)
    return module


class DeferredFinder(MetaPathFinder):
    """Sees the imports of submodules: all but the light ones need their package first."""

    def __init__(self, module: DeferredModule) -> None:
        self.module = module

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, child = name.rpartition(".")
        if package != self.module.__name__ or not self.module._waiting or child in self.module._light:
            return None
        load(self.module)
        ready = sys.modules.get(name)
        return None if ready is None else ModuleSpec(name, AlreadyLoaded(ready))


class AlreadyLoaded(Loader):
    """Hands over a submodule that its package imported just now, while it was being looked for."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


def defer(
    name: str,
    answers: Mapping[str, Callable[[DeferredModule], Any]],
    light: Collection[str],
    kind: type[DeferredModule] = DeferredModule,
) -> None:
    """Defers the package ``name`` unless it has been imported.  ``answers`` make attributes from the module."""
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = kind(name)
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    module.__package__ = spec.parent
    if spec.submodule_search_locations is not None:
        module.__path__ = list(spec.submodule_search_locations)
    module._lock, module._light, module._waiting = threading.RLock(), light, True
    module._answers = {key: make(module) for key, make in answers.items()}
    sys.meta_path.insert(0, DeferredFinder(module))
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def late_disable(module: DeferredModule) -> Callable[..., Any]:
    """A stand-in for the peer's ``disable``: while the peer has not been loaded there is nothing to disable, and once
    it has been its own answer counts."""

    def disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
        if fn is None:
            return functools.partial(disable, recursive=recursive, **options)
        if not isinstance(fn, FunctionType | BuiltinFunctionType | MethodType):  # a module, a class: the peer's to wrap
            return load(module).__dict__["disable"](fn, recursive, **options)
        if not recursive and isinstance(fn, FunctionType):
            vars(fn).update(_torchdynamo_disable=True)
            return fn
        return _disabled_late(module, fn, recursive, options)

    return disable


def _disabled_late(module: DeferredModule, function: Any, recursive: bool, options: Mapping[str, Any]) -> Any:
    genuine: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if module._waiting:
            return function(*args, **kwargs)
        if not genuine:
            genuine.append(module.__dict__["disable"](function, recursive, **options))
        return genuine[0](*args, **kwargs)

    # Capture reads these: a function that the program disabled stays disabled for it.
    vars(call).update(_torchdynamo_disable=True, _wraps_disabled=True)
    return call


def no_graph_break(module: DeferredModule) -> Callable[..., None]:
    """A stand-in for a marker that torch's optimizers call at every step; it concerns the peer's graphs alone."""

    def graph_break(msg: str = "") -> None:
        if not module._waiting:
            module.__dict__["graph_break"](msg)

    return graph_break


def defer_the_peer() -> None:
    """Defers torch's own compiler, which nothing of ours uses."""
    defer("torch._dynamo", {"disable": late_disable, "graph_break": no_graph_break}, light=("config",))
