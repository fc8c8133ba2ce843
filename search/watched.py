"""Tensors that a compiled graph got or gave, with the versions that they had when it was over.

Whether something was written between a compiled forward and its backward shows in a version that is higher later.
Must not know: how backends compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from search.program import Compiler


@dataclass(slots=True)
class Watch:
    """The tensors noted while a program runs, with their versions."""

    left: list[tuple[torch.Tensor, int]] = field(default_factory=list)

    def note(self, values: Sequence[object]) -> None:
        plain = (each for each in values if isinstance(each, torch.Tensor) and not each.is_inference())
        self.left += [(each.detach(), each._version) for each in plain]  # which goes on to count with it

    def was_written(self, left_at: int, found_at: int) -> bool:
        """True if a tensor with the one version when a graph was over has the other now."""
        return any((version, tensor._version) == (left_at, found_at) for tensor, version in self.left)


def watching(backend: str, watch: Watch) -> Compiler:
    """Compiles as the backend does, and notes each call of a graph."""
    # Here: the search of capture alone does not need it.
    import compile_api
    from compile_api.backends import Context, lookup
    from compile_api.ledger import Ledger
    from compile_api.options import CompileOptions
    from compile_api.progress import Progress

    compiled = lookup(backend).make(Context(CompileOptions(), Ledger(), Progress()))

    def watched(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        run = compiled(gm, example_inputs)

        def call(*arguments: Any) -> Any:
            results = run(*arguments)
            watch.note([*arguments, *results])
            return results

        return call

    return lambda function: compile_api.compile(function, backend=watched)
