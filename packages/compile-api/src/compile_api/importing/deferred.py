"""The one mechanism: a package that is in place under its name, and whose ``__init__`` has not run.

It runs when anything of the package is asked for that has no answer here.  Knows of no package by name.
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
from types import FrameType, ModuleType
from typing import Any

_BOOTSTRAP: Any = importlib._bootstrap
"""Python's own: its locks for modules, and what an import writes into one before it is run."""
_OF_EVERY_MODULE = frozenset({"__all__", "__doc__"})
_ASKERS = frozenset({"torch", "capture", "aotgrad", "inductor", "cudagraphs"})
"""Packages of which no function keeps an answer; ours run operators on fakes, where torch's functions in C ask."""


class Deferral:
    """A package whose ``__init__`` has not run.

    ``answers`` are attributes it can supply without running it: to functions of torch's, and to everybody those that
    are given ``openly``.  ``light`` are the submodules that can be imported without it, and ``then`` is what is to be
    done to it when it has run.
    """

    def __init__(self, name: str, spec: ModuleSpec, light: Collection[str], openly: Collection[str]) -> None:
        self.name = name
        self.spec = spec
        self.light = light
        self.openly = openly
        self.answers: Mapping[str, Any] = {}
        self._mentioned: dict[str, bool] = {}
        self.then: list[Callable[[ModuleType], None]] = []
        self.waiting = True
        self.loader: int | None = None
        self.claim = threading.Lock()
        self.parent = deferral_of(name.rpartition(".")[0])
        self.module: ModuleType
        self.finder: DeferredFinder

    def load(self) -> ModuleType:
        """Runs the package's ``__init__``, as the first import would have; other threads wait for it as they would."""
        # As an import does it: packages from the outside in.
        if self.parent is not None and self.parent.waiting:
            self.parent.load()
        if self._claimed():
            with _BOOTSTRAP._ModuleLockManager(self.name):
                self._run()
        else:
            self.wait()
        return self.module

    def _claimed(self) -> bool:
        """True if it is this thread that has to run it: one does."""
        with self.claim:
            if not self.waiting:
                return False
            self.waiting, self.loader = False, threading.get_ident()
            return True

    def wait(self) -> None:
        """Waits until another thread has run it.  By Python's own lock for the module, which knows of circles: of two
        threads that import what the other one needs, one goes on with what is there so far."""
        try:
            while self.loader not in (None, threading.get_ident()):
                with _BOOTSTRAP._ModuleLockManager(self.name):
                    pass
        except _BOOTSTRAP._DeadlockError:
            pass

    def _run(self) -> None:
        before, imported = dict(vars(self.module)), set(sys.modules)
        spec: Any = self.spec
        # Python's own mark of a module that is being imported: other threads that import it wait for its lock.
        spec._initializing = True
        try:
            assert self.spec.loader is not None
            self.spec.loader.exec_module(self.module)
            for each in self.then:
                each(self.module)
        except BaseException:  # as if nothing had been asked: the next one who asks tries again
            vars(self.module).clear()
            vars(self.module).update(before)
            self._forget_submodules(imported)
            self.waiting = True
            raise
        finally:
            spec._initializing = False
            self.loader = None
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self.finder]
        # An ordinary module from here on, without a detour for each attribute.
        self.module.__class__ = ModuleType

    def _forget_submodules(self, earlier: Collection[str]) -> None:
        """Takes out of ``sys.modules`` what an ``__init__`` that failed has imported of its own package: an import that
        finds a module there does not make it an attribute of its package, which the next attempt asks for."""
        for name in [*sys.modules]:
            if name.startswith(f"{self.name}.") and name not in earlier:
                sys.modules.pop(name, None)

    def answer(self, name: str) -> bool:
        """True if ``name`` is answered without the package; not once the one it lies in wants it whole."""
        return self.waiting and name in self.answers and (self.parent is None or self.parent.waiting)

    def mentions(self, name: str) -> bool:
        """True if the text of the ``__init__`` has the name.  ``from package import this`` asks for ``__path__`` each
        time, and torch's fakes do that for every operator."""
        if name not in self._mentioned:
            self._mentioned[name] = name in self.source
        return self._mentioned[name]

    @functools.cached_property
    def source(self) -> str:
        """The text of the ``__init__``."""
        get_source = getattr(self.spec.loader, "get_source", None)
        return "" if get_source is None else str(get_source(self.name))


class DeferredModule(ModuleType):
    """A package whose ``__init__`` has not run.  Once it has, this is a module like any other."""

    deferral: Deferral

    def __getattr__(self, name: str) -> Any:
        deferral = type(self).deferral
        if not deferral.waiting:
            return _while_it_runs(deferral, name)
        if name.startswith("__") and name not in _OF_EVERY_MODULE and not deferral.mentions(name):
            # Python and libraries ask every module for such names in passing.
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if deferral.answer(name) and (name in deferral.openly or _asks_and_forgets(sys._getframe(1))):
            return deferral.answers[name]
        if name in deferral.light:
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(deferral.load(), name)

    def __dir__(self) -> list[str]:
        return dir(type(self).deferral.load()) if type(self).deferral.waiting else list(vars(self))

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        deferral = type(self).deferral
        return vars(deferral.load() if deferral.waiting else self).get("__doc__")


def _asks_and_forgets(frame: FrameType) -> bool:
    """True if a function of torch's is asking, one in C among them, which has the frame of whoever called it.

    Code that asks while it is being imported keeps what it gets.
    """
    home = str(frame.f_globals.get("__name__", ""))
    return home.partition(".")[0] in _ASKERS and frame.f_code.co_name != "<module>"


def _while_it_runs(deferral: Deferral, name: str) -> Any:
    """An attribute while the ``__init__`` is running: another thread waits until it has run."""
    if deferral.loader not in (None, threading.get_ident()):
        deferral.wait()
        if deferral.loader is None:
            return getattr(deferral.module, name)
    try:
        return vars(deferral.module)[name]
    except KeyError:
        raise AttributeError(f"module {deferral.name!r} has no attribute {name!r}") from None


class DeferredFinder(MetaPathFinder):
    """Sees the imports of submodules: all but the light ones need their package first.  So does who reloads it."""

    def __init__(self, deferral: Deferral) -> None:
        self.deferral = deferral

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, child = name.rpartition(".")
        if not self.deferral.waiting:
            return None
        reloaded = target is self.deferral.module
        if not reloaded and (package != self.deferral.name or child in self.deferral.light):
            return None
        self.deferral.load()
        ready = None if reloaded else sys.modules.get(name)
        if ready is None:
            return _found_by_others(name, path, target)
        # Where a module appears while it is looked for, Python goes by that module's own spec, and would run it again.
        spec = ModuleSpec(name, AlreadyLoaded(ready))
        ModuleType.__setattr__(ready, "__spec__", spec)  # torch's modules of settings refuse names that are none
        return spec


def _found_by_others(name: str, path: Any, target: Any) -> ModuleSpec | None:
    """Asks the finders that are left: whoever asks us goes through a list that has become shorter meanwhile, and would
    miss some."""
    found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
    return next((spec for spec in found if spec is not None), None)


class AlreadyLoaded(Loader):
    """Hands over a submodule that its package imported just now, while it was being looked for."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        ModuleType.__setattr__(module, "__spec__", self.spec)


def defer(
    name: str,
    answers: Mapping[str, Callable[[Deferral], Any]],
    light: Collection[str] = (),
    openly: Collection[str] = (),
) -> Deferral | None:
    """Defers the package ``name`` unless it has been imported.  ``answers`` make attributes from what is known."""
    if name in sys.modules:
        return None
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return None
    deferral = Deferral(name, spec, light, openly)
    # A class has a docstring of its own unless it is told otherwise, and would give that for the module's.
    about = {"deferral": deferral, "__doc__": vars(DeferredModule)["__doc__"]}
    module = type("DeferredModule", (DeferredModule,), about)(name)
    _BOOTSTRAP._init_module_attrs(spec, module, override=True)
    deferral.module, deferral.finder = module, DeferredFinder(deferral)
    deferral.answers = {key: make(deferral) for key, make in answers.items()}
    sys.meta_path.insert(0, deferral.finder)
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, module)
    return deferral


def deferral_of(name: str) -> Deferral | None:
    """The deferral of the package ``name`` while it waits; None where it has run or was never put off."""
    module = sys.modules.get(name)
    return type(module).deferral if isinstance(module, DeferredModule) else None


def is_waiting(name: str) -> bool:
    """True if the package ``name`` is put off, and nobody has used it yet."""
    deferral = deferral_of(name)
    return deferral is not None and deferral.waiting
