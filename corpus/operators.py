"""``python -m corpus.operators [part of a name ...]``: the operators of the models that run as torch's own, with
counts.

Every case is captured and lowered, forward and backward, and nothing is built; what a library does best (products,
convolutions, attention) is counted apart.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule

import aotgrad
import capture
from corpus.families import register_all
from corpus.table import CASES, Case
from inductor.decompose import decompositions, prepare
from inductor.errors import UnsupportedGraph
from inductor.ir.program import Call
from inductor.lower import lower


@dataclass(slots=True)
class Found:
    """The operators that graphs were made of; ``reasons`` are by operator, ``cases`` name the models."""

    lowered: int = 0
    library: int = 0
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    cases: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def compiler(self, name: str) -> Callable[[GraphModule, Sequence[Any]], Callable[[list[Any]], Any]]:
        """An FX compiler that counts and runs the graph as it is."""

        def compile_graph(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
            try:
                self.count(name, gm, example_inputs)
            except UnsupportedGraph as error:
                self.add(name, "a whole graph", str(error))
            return aotgrad.run_eagerly(gm, example_inputs)

        return compile_graph

    def count(self, name: str, gm: GraphModule, example_inputs: Sequence[Any]) -> None:
        """Lowers the graph as the code generator would, and sorts what did not become loops."""
        graph = lower(prepare(gm, example_inputs))
        self.lowered += sum(graph.lowered.values())
        for operation in graph.operations:
            if isinstance(operation, Call):
                # A call without a reason is one that a library does best.
                if operation.reason is None:
                    self.library += 1
                else:
                    self.add(name, str(operation.target), operation.reason)

    def add(self, name: str, operator: str, reason: str) -> None:
        self.reasons[operator, reason] += 1
        self.cases.setdefault((operator, reason), set()).add(name)


def look_at(case: Case, training: bool, found: Found) -> None:
    """Captures and lowers one case, and counts what it is made of."""
    torch.manual_seed(0)
    model = case.model().train(training)
    args, kwargs = case.inputs()
    compiler = found.compiler(case.name)

    def backend(gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        return aotgrad.compile(
            gm, example_inputs, forward=compiler, backward=compiler, inference=compiler,
            decompositions=decompositions(), partition=aotgrad.min_cut_partition,
        )  # fmt: skip

    captured = capture.optimize(backend)(model)
    with torch.set_grad_enabled(training):
        result = captured(*args, **kwargs)
        leaves = torch.utils._pytree.tree_leaves(result.to_tuple() if hasattr(result, "to_tuple") else result)
        losses = [leaf.float().sum() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        # Backward is lowered when it is first needed.
        if losses:
            torch.stack(losses).sum().backward()


def main() -> int:
    warnings.simplefilter("ignore")
    register_all()
    found, wanted = Found(), sys.argv[1:]
    for case in CASES.values():
        if wanted and not any(part in case.name for part in wanted):
            continue
        for training in (False, True) if case.trains else (False,):
            try:
                look_at(case, training, found)
            except Exception as error:  # noqa: BLE001 - one case must not hide the others
                print(f"{case.name} {'training' if training else 'inference'}: {type(error).__name__}: {error}"[:200])
    own = found.reasons.total()
    print(f"{found.lowered} operators lowered, {found.library} calls of libraries, {own} of torch's own:")
    for (operator, reason), count in found.reasons.most_common():
        names = sorted(found.cases[operator, reason])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        print(f"{count:5} {operator:50} {reason}  ({', '.join(names[:3])}{more})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
