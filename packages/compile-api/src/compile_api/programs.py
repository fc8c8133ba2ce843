"""The user's own program, imported so that what it defines and registers is there."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from compile_api.errors import NothingToMinify

_IMPORTED_AS = "__mp_main__"
"""The name of a script that is only imported, as by Python's ``multiprocessing``: what stands under ``if __name__ ==
"__main__"`` does not run."""


@contextmanager
def main_put_back() -> Iterator[None]:
    """Restores ``__main__`` after a command that imports a script: processes that are spawned later read it."""
    before = {name: sys.modules.get(name) for name in ("__main__", _IMPORTED_AS)}
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def import_program(program: str) -> None:
    """Imports a module by its name or a script by its path.  The script's names are those of ``__main__`` from then on,
    which is what a graph that the script itself compiled calls them by."""
    with _arguments_of(program):
        _import(program)


@contextmanager
def _arguments_of(program: str) -> Iterator[None]:
    """The program sees itself called without arguments, and that it ends early is told."""
    before = sys.argv
    sys.argv = [program]
    try:
        yield
    except SystemExit as end:
        raise NothingToMinify(
            f"{program} ended itself with {end.code!r} while it was imported: put what runs it under "
            '`if __name__ == "__main__":`'
        ) from end
    finally:
        sys.argv = before


def _import(program: str) -> None:
    path = Path(program)
    if path.suffix != ".py" and not path.is_file():
        try:
            importlib.import_module(program)
        except ImportError as error:
            raise NothingToMinify(f"{program} cannot be imported: {error}") from error
        return
    if not path.is_file():
        raise NothingToMinify(f"there is no program {program} to import")
    sys.path.insert(0, str(path.resolve().parent))
    main = ModuleType(_IMPORTED_AS)
    main.__dict__.update(runpy.run_path(str(path), run_name=_IMPORTED_AS))
    sys.modules["__main__"] = sys.modules[_IMPORTED_AS] = main
