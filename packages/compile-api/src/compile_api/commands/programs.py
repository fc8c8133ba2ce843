"""Programs as ``python`` runs them: a file, a folder, an archive, a module or a text, whose names are ``__main__``'s.

The standard library's `runpy` takes ``__main__`` away when the last line has run; threads of the program, and what it
left to `atexit`, still look there for its classes.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import linecache
import os
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from compile_api.errors import CompileApiError


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run: ``sys.argv[0]``, ``sys.path[0]`` and ``__main__`` as they will be, and the code to run, if it
    is text."""

    name: str
    folder: str
    main: ModuleType
    code: Callable[[], CodeType | None]

    def run(self) -> None:
        code = self.code()
        if code is None:
            vars(self.main).update(runpy.run_path(self.name, run_name="__main__"))
        else:
            exec(code, vars(self.main))


def program_of_file(name: str) -> Program:
    """A script; or a folder or an archive, whose ``__main__`` it is."""
    file = os.path.abspath(name)
    spec = PathFinder.find_spec("__main__", [file])
    if spec is not None:
        return _program_of_spec(spec, name, file)
    if not os.path.isfile(file):
        raise CompileApiError(f"there is no program {name}")

    def code() -> CodeType | None:
        # Compiled files have a header that depends on Python's version: runpy reads it.
        if file.endswith(".pyc"):
            return None
        with io.open_code(file) as lines:
            return compile(lines.read(), file, "exec", dont_inherit=True)

    folder = os.path.dirname(os.path.realpath(file))
    return Program(name, folder, _main(file, SourceFileLoader("__main__", file)), code)


def program_of_text(file: str, text: str) -> Program:
    """A program that no file holds; errors and reports quote its lines all the same."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    main = _main(file, BuiltinImporter)
    return Program(file, "", main, lambda: compile(text, file, "exec", dont_inherit=True))


def program_of_module(name: str) -> Program:
    """A module that is found from here."""
    spec = _spec_of(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec_of(f"{name}.__main__")
    if spec is None or not hasattr(spec.loader, "get_code"):
        raise CompileApiError(f"there is no module {name}, or it is a package without a __main__")
    return _program_of_spec(spec, spec.origin or name, os.getcwd())


def _program_of_spec(spec: ModuleSpec, name: str, folder: str) -> Program:
    loader: Any = spec.loader
    main = _main(spec.origin, loader)
    main.__spec__, main.__package__ = spec, spec.parent
    return Program(name, folder, main, lambda: loader.get_code(spec.name))


def _main(file: str | None, loader: Any) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__, main.__loader__ = file, loader
    # ``exec`` alone would put a dict there; in ``__main__`` it is the module.
    vars(main)["__builtins__"] = builtins
    return main


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a package on the way to it
        return None
