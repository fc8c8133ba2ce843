"""Puts off the import of a package until something of it is used.

torch's tracing toolbox imports torch's own compiler to read a handful of settings from it, which takes longer than
capturing, generating and building a kernel.  A deferred package is in place under its name, its submodules can be
imported, and its ``__init__`` runs when an attribute that only it can supply is asked for.  A program that uses the
package finds it whole; a program that does not never waits for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any


class DeferredModule(ModuleType):
    """A package whose ``__init__`` has not run.  ``answers`` are attributes it can supply without running it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        answers = self.__dict__["_answers"]
        if name in answers:
            return answers[name]
        submodule = f"{self.__name__}.{name}"
        if importlib.util.find_spec(submodule) is not None:
            return importlib.import_module(submodule)
        return getattr(self._loaded(), name)

    def _loaded(self) -> ModuleType:
        """The same object, as if it had been imported the usual way."""
        with self.__dict__["_lock"]:
            if self.__class__ is DeferredModule:
                self.__class__ = ModuleType  # type: ignore[assignment]
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        return self


def defer(name: str, answers: dict[str, Callable[[ModuleType], Any]]) -> None:
    """Defers the package ``name`` unless it has been imported.  ``answers`` make attributes from the module."""
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    module.__class__ = DeferredModule
    module.__dict__["_lock"] = threading.RLock()
    module.__dict__["_answers"] = {key: make(module) for key, make in answers.items()}
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)


def late_disable(module: ModuleType) -> Callable[..., Any]:
    """A stand-in for the peer's ``disable``: while the peer has not been loaded there is nothing to disable, and once
    it has been its own answer counts."""

    def disable(function: Callable[..., Any], recursive: bool = True, **options: Any) -> Callable[..., Any]:
        genuine: list[Callable[..., Any]] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            if module.__class__ is DeferredModule:
                return function(*args, **kwargs)
            if not genuine:
                genuine.append(module.__dict__["disable"](function, recursive, **options))
            return genuine[0](*args, **kwargs)

        return call

    return disable


def defer_the_peer() -> None:
    """Defers torch's own compiler, which nothing of ours uses."""
    defer("torch._dynamo", {"disable": late_disable})
