"""What compiling came to, rendered for people: a view of the ledger, with no facts of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import capture
from compile_api.errors import CompileApiError
from compile_api.ledger import GraphCaptured, GraphCompiled, GraphRefused, Kernel, Ledger, total


@dataclass(frozen=True, slots=True)
class Report:
    """Graphs, kernels and refusals of one compiled function so far; ``print`` it."""

    captured: tuple[GraphCaptured, ...]
    compiled: tuple[GraphCompiled, ...]
    refused: tuple[GraphRefused, ...]
    breaks: tuple[capture.BreakRecord, ...] = ()
    recompiled: tuple[capture.RecompileRecord, ...] = ()
    left_alone: tuple[capture.FallbackRecord, ...] = ()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(kernel for graph in self.compiled for kernel in graph.kernels)

    @property
    def fused_operators(self) -> int:
        """How many operators went into generated kernels."""
        return sum(len(kernel.operators) for kernel in self.kernels)

    @property
    def seconds(self) -> float:
        """Time spent behind capture: differentiating, generating and building."""
        return sum(graph.seconds for graph in self.captured)

    def __str__(self) -> str:
        lines = [
            f"graphs captured    {len(self.captured)} "
            f"({sum(len(graph.operators) for graph in self.captured)} operators)",
            f"graphs compiled    {len(self.compiled)}",
            f"kernels            {len(self.kernels)} (from {self.fused_operators} operators)",
            f"library calls      {sum(len(graph.library_calls) for graph in self.compiled)}",
            f"fallback operators {_names(self.compiled)}",
            f"compile time       {self.seconds:.2f} s",
        ]
        for graph in self.compiled:
            stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in graph.seconds)
            lines.append(f"  {graph.direction}: {graph.nodes} nodes in {total(graph.seconds):.2f} s ({stages})")
        lines += [f"graph break at {each.location}: {each.reason.explanation}" for each in self.breaks]
        lines += [f"recompiled {each.location}: {each.failed}" for each in self.recompiled]
        lines += [f"left to CPython, {each.location}: {each.reason.explanation}" for each in self.left_alone]
        lines += [f"refused by {each.stage}: {each.reason}; {each.consequence}" for each in self.refused]
        return "\n".join(lines)


def report(compiled: Callable[..., Any]) -> Report:
    """The report of a function or module that ``compile`` returned."""
    call = getattr(compiled, "_compiled_call", compiled)
    ledger = getattr(call, "ledger", None)
    if not isinstance(ledger, Ledger):
        raise CompileApiError(f"{compiled!r} was not made by compile_api.compile, so there is nothing to report")
    return Report(
        ledger.captured(),
        ledger.compiled(),
        ledger.refused(),
        ledger.breaks(),
        ledger.recompiled(),
        ledger.left_alone(),
    )


def _names(graphs: tuple[GraphCompiled, ...]) -> str:
    names = [name for graph in graphs for name in graph.fallbacks]
    return f"{len(names)} ({', '.join(sorted(set(names)))})" if names else "0"
