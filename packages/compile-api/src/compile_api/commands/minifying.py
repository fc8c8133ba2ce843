"""``compile-api minify``: a debug folder of a failing graph in, a small script that fails alike out."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from compile_api.backends import lookup
from compile_api.compile import backend_function
from compile_api.errors import NothingToMinify, UnknownBackend
from compile_api.isolation import Isolated
from compile_api.minify import Fails, failure_of, minify, write_script
from compile_api.programs import import_program, main_put_back
from compile_api.stored_graph import Maker, StoredGraph


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("minify", help="shrink a graph that fails or is inaccurate to a small script")
    parser.add_argument("folder", type=Path, help="a graph's folder, written under COMPILE_DEBUG=1, or a graph.pt")
    parser.add_argument("--backend", help="the backend that fails; left out, the one that the graph was compiled with")
    parser.add_argument("-o", "--output", type=Path, default=Path("minimal.py"), help="the script to write")
    parser.add_argument("--isolated", action="store_true", help="try each case in another process: for crashes")
    parser.add_argument(
        "--import", dest="programs", action="append", default=[], metavar="program",
        help="a script or module to import first, which defines or registers the backend; may be repeated",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    with main_put_back():
        return _minify(chosen)


def _minify(chosen: argparse.Namespace) -> int:
    path = chosen.folder / "graph.pt" if chosen.folder.is_dir() else chosen.folder
    if not path.is_file():
        raise NothingToMinify(f"{chosen.folder} is no debug folder: run the program under COMPILE_DEBUG=1 to get one")
    sys.path.insert(0, os.getcwd())  # the user's modules, as `python` would find them
    programs = [_absolute(each) for each in chosen.programs]
    for each in programs:
        import_program(each)
    stored = StoredGraph.load(path)
    backend = _found(chosen.backend or stored.maker.name or "inductor", stored.maker)
    with contextlib.ExitStack() as stack:
        if chosen.isolated:
            fails: Fails = stack.enter_context(Isolated(backend, programs=programs))
        else:
            fails = failure_of(backend_function(backend, strict=True))
        found = minify(stored.module(), stored.example_inputs(), fails)
        write_script(found, chosen.output, backend, str(chosen.folder), fails, programs)
    print(found)
    print(f"run it: python {chosen.output}")
    return 0


def _absolute(program: str) -> str:
    """The script that is written may run in another folder."""
    return str(Path(program).resolve()) if Path(program).is_file() else program


def _found(backend: str, maker: Maker) -> str:
    """The name to look the backend up by: a function of the user's is found where the graph says it was defined."""
    try:
        lookup(backend)
    except UnknownBackend as error:
        if backend not in (maker.name, maker.function) or not maker.module:
            hint = f"; if {maker.program or 'your program'} registers it, add --import {maker.program or 'program.py'}"
            raise UnknownBackend(f"{error}{hint}") from error
        if maker.module == "__main__" and maker.function and hasattr(sys.modules["__main__"], maker.function):
            return f"__main__:{maker.function}"
        # A function inside another one, and a lambda, cannot be found by name: only running the program makes them.
        if maker.module == "__main__" or "<" in maker.function:
            raise UnknownBackend(
                f"backend {backend!r} is defined by the program {maker.program}, which was not imported: "
                f"add --import {maker.program} (what stands under `if __name__ == '__main__'` will not run)"
            ) from error
        if Path(maker.program).parent.is_dir():
            sys.path.append(str(Path(maker.program).parent))
        return f"{maker.module}:{maker.function}"
    return backend
