"""``compile-api minify``: a debug folder of a failing graph in, a small script that fails alike out."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from compile_api.compile import backend_function
from compile_api.errors import NothingToMinify
from compile_api.isolation import Isolated
from compile_api.minify import Fails, failure_of, minify, write_script
from compile_api.stored_graph import StoredGraph


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("minify", help="shrink a graph that fails or is inaccurate to a small script")
    parser.add_argument("folder", type=Path, help="a graph's folder, written under COMPILE_DEBUG=1, or a graph.pt")
    parser.add_argument("--backend", default="inductor", help="the backend that fails (inductor)")
    parser.add_argument("-o", "--output", type=Path, default=Path("minimal.py"), help="the script to write")
    parser.add_argument("--isolated", action="store_true", help="try each case in another process: for crashes")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    path = chosen.folder / "graph.pt" if chosen.folder.is_dir() else chosen.folder
    if not path.is_file():
        raise NothingToMinify(f"{chosen.folder} is no debug folder: run the program under COMPILE_DEBUG=1 to get one")
    stored = StoredGraph.load(path)
    with contextlib.ExitStack() as stack:
        if chosen.isolated:
            fails: Fails = stack.enter_context(Isolated(chosen.backend))
        else:
            fails = failure_of(backend_function(chosen.backend, strict=True))
        found = minify(stored.module(), stored.example_inputs(), fails)
        write_script(found, chosen.output, chosen.backend, str(chosen.folder), fails)
    print(found)
    print(f"run it: python {chosen.output}")
    return 0
