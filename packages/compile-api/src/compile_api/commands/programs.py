"""Programs as ``python`` runs them: a file, a module or a text, whose names are those of ``__main__``.

The standard library's `runpy` takes ``__main__`` away when the last line has run; threads of the program, and what it
left to `atexit`, still look there for its classes.
"""

from __future__ import annotations

import importlib.util
import io
import linecache
import os
import runpy
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from compile_api.errors import CompileApiError


@dataclass(frozen=True, slots=True)
class Program:
    """What becomes ``sys.argv[0]`` and ``__main__``, and the code to run in it; none for a file that is no text."""

    name: str
    main: ModuleType
    code: Callable[[], CodeType | None]

    def run(self) -> None:
        code = self.code()
        if code is None:
            vars(self.main).update(runpy.run_path(self.name, run_name="__main__"))
        else:
            exec(code, vars(self.main))


def folder_of(name: str) -> str:
    """Where a program's own modules lie: beside its file, or in the folder that is the program."""
    path = Path(name)
    if (path / "__main__.py").is_file():
        return name
    if not path.is_file():
        raise CompileApiError(f"there is no program {path}")
    return str(path.resolve().parent)


def program_of_file(name: str) -> Program:
    path = Path(name) / "__main__.py" if Path(name).is_dir() else Path(name)
    file = os.path.abspath(path)
    main = ModuleType("__main__")
    main.__file__, main.__loader__ = file, SourceFileLoader("__main__", file)

    def code() -> CodeType | None:
        if path.suffix == ".pyc" or zipfile.is_zipfile(path):
            return None
        with io.open_code(file) as lines:
            return compile(lines.read(), file, "exec", dont_inherit=True)

    return Program(name, main, code)


def program_of_text(file: str, text: str) -> Program:
    """One that no file holds; errors and reports quote its lines all the same."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return Program(file, ModuleType("__main__"), lambda: compile(text, file, "exec", dont_inherit=True))


def program_of_module(name: str) -> Program:
    spec = _spec_of(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec_of(f"{name}.__main__")
    loader = None if spec is None else spec.loader
    if spec is None or loader is None or not hasattr(loader, "get_code"):
        raise CompileApiError(f"there is no module {name}, or it is a package without a __main__")
    main = ModuleType("__main__")
    main.__spec__, main.__file__, main.__loader__, main.__package__ = spec, spec.origin, loader, spec.parent
    return Program(spec.origin or name, main, lambda: loader.get_code(spec.name))


def _spec_of(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:  # a package on the way to it
        return None
