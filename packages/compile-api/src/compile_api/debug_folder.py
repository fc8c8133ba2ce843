"""The folder that each graph leaves under ``COMPILE_DEBUG=1``: pages for people, and files that run the graph again.

::

    compile_debug/
        index.html                  every graph of the process
        graph_0_forward/
            index.html              source beside graphs beside kernels
            graph.py                the captured graph, as Python
            graph.pt                the same and its inputs, as ``compile-api minify`` takes them
            forward/, backward/     every stage of the code generator, with a ``run.py``

Writes, never decides: a folder that cannot be written is said once and left out.
"""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import fx

from capture import CaptureWarning, inform
from compile_api import page
from compile_api.ledger import GraphCompiled
from compile_api.stored_graph import Maker, StoredGraph

_LARGEST = 256 << 20
"""Inputs beyond this many bytes are kept as their sizes only."""


@dataclass
class GraphFolder:
    """One graph's folder; ``page`` is its ``index.html`` so far."""

    path: Path
    page: page.GraphPage
    stored: StoredGraph
    inputs_kept: bool = field(default=False)

    def stage(self, direction: str) -> str:
        """The folder into which the code generator writes its stages for one direction."""
        return str(self.path / direction)

    def compiled(self, record: GraphCompiled) -> None:
        """A code generator is done with one direction: the page shows it."""
        self.page = dataclasses.replace(self.page, compiled=(*self.page.compiled, record))
        (self.path / "index.html").write_text(str(self.page), encoding="utf-8")
        page.write_overview(self.path.parent)

    def observed(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """``compiled``, which keeps the inputs of its first call: an inaccuracy can only be shown with values."""

        def call(*inputs: Any) -> Any:
            if not self.inputs_kept:
                self.inputs_kept = True
                _save(self.stored.with_inputs(inputs, _LARGEST), self.path)
            return compiled(*inputs)

        return call


def for_graph(
    option: bool | str, gm: fx.GraphModule, example_inputs: list[object], maker: Maker | None = None
) -> GraphFolder | None:
    """A new folder for ``gm`` below the one that ``option`` names, or None where nothing was asked for.  ``maker`` is
    the backend that is given the graph."""
    if option is False or option == "":
        return None
    base = Path("compile_debug" if option is True else str(option))
    try:
        return _filled(_new(base, gm), gm, example_inputs, maker or Maker())
    except (OSError, UnicodeError) as error:  # or the locale has no letters for the folder's name
        inform(CaptureWarning(f"no debug folder for this graph: {error}"))
        return None


def _filled(path: Path, gm: fx.GraphModule, example_inputs: list[object], maker: Maker) -> GraphFolder:
    readable = page.readable(gm)
    (path / "graph.py").write_text(readable, encoding="utf-8")
    stored = dataclasses.replace(StoredGraph.of(gm, example_inputs), maker=maker)
    _save(stored, path)
    folder = GraphFolder(path, page.GraphPage(path.name, page.source_of(gm), readable), stored)
    (path / "index.html").write_text(str(folder.page), encoding="utf-8")
    page.write_overview(path.parent)
    return folder


def _save(stored: StoredGraph, folder: Path) -> None:
    """Stores the graph, or says why it cannot be: inputs that do not pickle must not stop the program that is looked
    at."""
    try:
        stored.save(folder / "graph.pt")
    except (OSError, TypeError, AttributeError, RuntimeError, pickle.PicklingError) as error:
        inform(CaptureWarning(f"{folder} has no graph.pt to minify: {error}"))


def _function_of(gm: fx.GraphModule) -> str:
    """The user's function that the first operator comes from."""
    locations = (node.meta.get("location") for node in gm.graph.nodes)
    first = next((location for location in locations if location is not None), None)
    return (
        type(gm).__name__
        if first is None
        else str(first.function).replace("<locals>", "").replace("<lambda>", "lambda")
    )


def _new(base: Path, gm: fx.GraphModule) -> Path:
    base.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "_", _function_of(gm), flags=re.ASCII).strip("_")  # any locale can write it
    number = sum(1 for each in base.iterdir() if each.name.startswith("graph_"))
    while True:  # another process may take the same number
        path = base / f"graph_{number}_{name or 'graph'}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
            continue
        return path
