"""Shrinks a graph that fails to the few operators that make it fail, by delta debugging.

A case is a set of operators of the original graph.  Its graph is what they induce: whatever else they read is an input
with the value that eager recorded there.  So every subset is a case that runs, and the classic search over subsets
ends with one from which no operator can be taken.  Sizes are halved at the end, as long as it still fails.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import fx

from compile_api.accuracy import CompilerFn, difference
from compile_api.errors import NothingToMinify
from compile_api.stored_graph import Shape, StoredGraph
from compile_api.subgraphs import Recorder, induced, operators

Fails: TypeAlias = Callable[[fx.GraphModule, list[Any]], str]
"""Says what is wrong with a graph on inputs, in one word that must stay the same; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class Minified:
    """The smallest graph that still fails as the whole one did."""

    gm: fx.GraphModule
    inputs: list[Any]
    failure: str
    operators_before: int
    cases_tried: int

    @property
    def operators(self) -> list[str]:
        return [str(getattr(node.target, "__name__", node.target)) for node in operators(self.gm)]

    def __str__(self) -> str:
        return (
            f"{self.failure}: {len(self.operators)} of {self.operators_before} operators are enough "
            f"({', '.join(self.operators)}); {self.cases_tried} cases tried"
        )


def failure_of(compiler: CompilerFn) -> Fails:
    """A function that names the failure between a compiler and eager: an exception's type while compiling or running,
    or inaccuracy."""

    def fails(gm: fx.GraphModule, inputs: list[object]) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                compiled = compiler(gm, inputs)
                return "inaccurate" if difference(gm, compiled, inputs) is not None else ""
            except Exception as error:  # noqa: BLE001 - whatever a compiler raises is what is looked for
                return f"{type(error).__name__} while compiling or running"

    return fails


def minify(gm: fx.GraphModule, inputs: Sequence[object], fails: Fails) -> Minified:
    """The smallest graph found that ``fails`` names as it names the whole one."""
    # The word to keep: a smaller graph that fails in another way is no answer.
    failure = fails(gm, list(inputs))
    if not failure:
        raise NothingToMinify(
            "the graph compiles, runs and agrees with eager on these inputs: there is nothing to minify"
        )
    search = _Search(gm, inputs, fails, failure)
    nodes = search.smallest(operators(gm))
    small, small_inputs = search.case(nodes)
    small, small_inputs = search.with_smaller_sizes(small, small_inputs)
    return Minified(small, small_inputs, failure, len(operators(gm)), search.tried)


class _Search:
    def __init__(self, gm: fx.GraphModule, inputs: Sequence[object], fails: Fails, failure: str) -> None:
        self.gm = gm
        self.fails = fails
        self.failure = failure
        self.tried = 0
        recorder = Recorder(gm)
        with contextlib.suppress(Exception):  # eager may fail where the compiler does: what came before is recorded
            recorder.run(*inputs)
        # What eager computed at each node: inputs for the cases that leave that node out.
        self.values = recorder.values
        last = next(node for node in gm.graph.nodes if node.op == "output")
        self.outputs = set(last.all_input_nodes)

    def case(self, nodes: Sequence[fx.Node]) -> tuple[fx.GraphModule, list[Any]]:
        return induced(self.gm, set(nodes), self.values, self.outputs)

    def still_fails(self, nodes: Sequence[fx.Node]) -> bool:
        if not nodes:
            return False
        try:
            gm, inputs = self.case(nodes)
        except KeyError:  # reads a value that eager never came to
            return False
        return self.fails_alike(gm, inputs)

    def fails_alike(self, gm: fx.GraphModule, inputs: list[object]) -> bool:
        self.tried += 1
        # A case without results computes nothing to compare.
        if not any(node.op == "output" and node.args[0] for node in gm.graph.nodes):
            return False
        return self.fails(gm, inputs) == self.failure

    def smallest(self, nodes: list[fx.Node]) -> list[fx.Node]:
        """Takes chunks away, from halves to single operators, until none can go."""
        if not self.still_fails(nodes):
            return nodes
        # Large chunks first: most operators have nothing to do with the failure.
        chunk = max(1, len(nodes) // 2)
        while True:
            shorter = self._without_some(nodes, chunk)
            # Progress: go on with chunks of this size, or half of what is left.
            if len(shorter) < len(nodes):
                nodes, chunk = shorter, max(1, min(chunk, len(shorter) // 2))
            elif chunk == 1:
                return nodes
            else:
                chunk = chunk // 2

    def _without_some(self, nodes: list[fx.Node], chunk: int) -> list[fx.Node]:
        """Every chunk once, from the end: what stands behind the failure goes first."""
        for start in range(len(nodes) - chunk, -chunk, -chunk):
            # The first chunk may be shorter than the others: ``start`` is negative by what it lacks.
            rest = nodes[: max(start, 0)] + nodes[max(start, 0) + chunk + min(start, 0) :]
            if len(rest) < len(nodes) and self.still_fails(rest):
                nodes = rest
        return nodes

    def with_smaller_sizes(self, gm: fx.GraphModule, inputs: list[object]) -> tuple[fx.GraphModule, list[Any]]:
        """Halves each size that occurs, everywhere it occurs, where the graph runs and fails with that."""
        # Largest first, and the same number everywhere at once: dimensions that have to agree stay equal.
        for size in sorted({s for x in inputs if isinstance(x, torch.Tensor) for s in x.shape}, reverse=True):
            while size > 2:
                smaller = [_narrowed(each, size, size // 2) for each in inputs]
                if not self.fails_alike(gm, smaller):
                    break
                inputs, size = smaller, size // 2
        return gm, inputs


def _narrowed(value: object, size: int, smaller: int) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    narrowed = value.detach()
    for dim, extent in enumerate(value.shape):
        if extent == size:
            narrowed = narrowed.narrow(dim, 0, smaller)
    return narrowed.clone().requires_grad_(value.requires_grad)


# -- as a script --------------------------------------------------------------------------------------------------

_CONSTANTS = """\
    def __init__(self):
        super().__init__()
        for name, value in torch.load({values!r}, weights_only=False)["constants"].items():
            setattr(self, name, value)

"""

_SCRIPT = '''\
"""{failure}.

Made by ``compile-api minify`` from {folder}: {before} operators, of which these are enough.
Run it to see the failure: python {name}
"""

import torch

import compile_api
from compile_api.accuracy import difference
{programs}{imports}


class Minimal(torch.nn.Module):
{constants}{forward}

def inputs():
{inputs}


if __name__ == "__main__":
    gm = torch.fx.symbolic_trace(Minimal())
    compiled = compile_api.backend_function({backend!r}, strict=True)(gm, inputs())
    found = difference(gm, compiled, inputs())
    assert found is None, f"off by {{found.error:.3g}}; eager by {{found.eager_error:.3g}}"
    print("compiled and eager agree: the failure is gone")
'''


def write_script(
    found: Minified, path: Path, backend: str, folder: str, fails: Fails, programs: Sequence[str] = ()
) -> None:
    """A script that shows the failure; with random inputs if those fail too, else with the values beside it.  It
    imports ``programs`` first: what the backend and the operators are defined in."""
    stored = StoredGraph.of(found.gm, found.inputs)
    values = path.with_suffix(".pt")
    # Random inputs that fail alike make a script that needs no other file.
    if fails(found.gm, stored.example_inputs()) == found.failure:
        lines = [
            "    torch.manual_seed(0)",
            "    return [",
            *(f"        {_made(each)}," for each in stored.inputs),
            "    ]",
        ]
    else:
        lines = [f"    return torch.load({str(values)!r}, weights_only=False)['inputs']"]
    if stored.constants or "torch.load" in lines[0]:
        torch.save({"inputs": found.inputs, "constants": stored.constants}, values)
    # Only what the shrunk code still mentions, each line once.
    imports = dict.fromkeys(line for name, line in stored.names if re.search(rf"\b{name}\b", stored.code))
    path.write_text(
        _SCRIPT.format(
            failure=found.failure[0].upper() + found.failure[1:],
            folder=folder,
            before=found.operators_before,
            name=path.name,
            constants=_CONSTANTS.format(values=str(values)) if stored.constants else "",
            imports="\n".join(line for line in imports if line not in ("import torch", "import torch as torch")),
            forward="\n".join("    " + line if line else line for line in stored.code.strip().splitlines()),
            inputs="\n".join(lines),
            backend=backend,
            programs=_importing(programs),
        ),
        encoding="utf-8",
    )


def _importing(programs: Sequence[str]) -> str:
    lines = [f"import_program({each!r})\n" for each in programs]
    return "".join(["from compile_api.programs import import_program\n\n", *lines]) if lines else ""


def _made(each: object) -> str:
    """An expression for a random input like ``each``."""
    if not isinstance(each, Shape):
        return repr(each)
    random = f"torch.randn(({each.extent},), device={each.device!r})"
    cast = f".to({each.dtype})" if each.is_inexact else f".gt(0).to({each.dtype})"
    grad = ".requires_grad_()" if each.requires_grad else ""
    return f"{random}{cast}.as_strided({each.sizes}, {each.strides}){grad}"
