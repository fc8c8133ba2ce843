"""The freeing of saved tensors: when a compiled backward lets go of them, and whom it turns away, as autograd does node
by node.

Autograd frees the tensors of the nodes that it passes, and everything that a function of ours saved.  Where other
results may still be differentiated then, a node that autograd does not pass holds the tensors for them; a caller who
needs what eager has freed is turned away, though it is still there.  Must not know: what is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch

from aotgrad.autograd_graph.saved_tensors import Behind
from aotgrad.source import Source
from aotgrad.tensors.kept import keep
from aotgrad.torch_versions import get_current_graph_task_keep_graph, unpack, version_of


def keeps_graph() -> bool:
    """True if this backward may be run again; a torch that does not tell is taken for one where it may."""
    return not get_current_graph_task_keep_graph or get_current_graph_task_keep_graph()


@dataclass(frozen=True, slots=True)
class Freeing:
    """The rules for results that save together.  ``spares``: results with nothing behind them need nothing saved.
    ``own``: the number of results that the node itself saves, behind the rest, for gradients of gradients;
    ``computed_again``: a checkpoint computes one of them again, so that the caller may write to it."""

    behind: tuple[Behind, ...]
    saved: int
    spares: bool
    own: int = 0
    computed_again: bool = False

    @property
    def masks(self) -> list[int]:
        return sorted({each.held for each in self.behind if each.held})

    @property
    def counts(self) -> bool:
        """True if freeing has to be noted, because the saved tensors alone do not tell."""
        return bool(self.masks) and (len(self.behind) > 1 or not self.saved or self.computed_again)

    @property
    def keeps(self) -> bool:
        """True if the saved tensors have to outlive autograd's freeing: another backward may still read them, or a
        result, or another saved tensor, may be written to, which concerns only a backward that reads it."""
        apart = self.computed_again or (self.own and len(self.behind) > 1 and not (self.spares and unpack))
        some = self.spares and not unpack
        return bool(self.saved) and bool(self._apart or self._some_hold_nothing or apart or some)

    @property
    def _apart(self) -> bool:
        return any(not one & other for one, other in combinations(self.masks, 2))

    @property
    def _some_hold_nothing(self) -> bool:
        return not all(each.held for each in self.behind)

    def is_over(self, freed: int) -> bool:
        """True once no backward may come any more that reads the saved tensors."""
        return all(mask & freed for mask in self.masks) and (self.spares or not self._some_hold_nothing)

    def write_forward(self, source: Source, saved: Sequence[str], own: Sequence[str]) -> None:
        if saved and self.keeps:
            source.add(f"ctx.holder = Held([{', '.join(saved)}])", 2)
        held = own if self.keeps else [*saved, *own]
        if held:
            source.add(f"ctx.save_for_backward({', '.join(held)})", 2)
        if self.counts:
            source.add("ctx.freed = 0", 2)

    def write_checks(self, source: Source, tangents: Sequence[str]) -> None:
        """Writes the refusals that come before anything runs."""
        pairs = list(zip(tangents, self.behind, strict=True))
        through = [f"{name} is not None" for name, each in pairs if each.checkpoint]
        if through:
            source.add(f"if {' or '.join(through)}: refuse_partial_checkpoint()", 2)
        if self.counts:
            held = [f"({each.held} if {name} is not None else 0)" for name, each in pairs if each.held]
            source.add(f"behind = {' | '.join(held)}", 2)
            source.add("if ctx.freed & behind: refuse_second_time()", 2)

    def read(self) -> str:
        """The expression for the saved tensors; no backward reads them that may come when they are gone."""
        found = "saved_by(ctx)" if self.keeps else "ctx.saved_tensors"
        if self.spares:
            found = f"({found} if not absent else saved_by(ctx, lambda: fewer.reads(absent)))"
        if self.own and not self.keeps:
            found = f"{found}[:{self.saved}]"
        spared = self.spares and self.counts and self._some_hold_nothing
        return f"*({found} if behind else (None,) * {self.saved})" if spared else f"*{found}"

    def write_freeing(self, source: Source) -> None:
        if not self.masks:
            return
        source.add("if not keep_graph():", 2)
        if self.counts:
            source.add("ctx.freed |= behind", 3)
        if self.saved:
            source.add("if over(ctx.freed):" if self.keeps else "if True:", 3)
            source.add("ctx.holder = None" if self.keeps else "ctx.maybe_clear_saved_tensors()", 4)
            if not self._some_hold_nothing:
                source.add("ctx.inputs = ctx.noted = None", 4)


class Held:
    """A holder of tensors with their versions, as an autograd node has them, without references to its own holder.

    Where torch lets a node's tensors be read only all at once, those to be read one by one are held besides.
    """

    __slots__ = ("apart", "kept")

    def __init__(self, tensors: Sequence[Any]) -> None:
        plain = [each.detach() if _is_followed(each) else each for each in tensors]
        self.kept = keep(plain)
        self.apart = None if unpack else [(each, version_of(each) if _is_followed(each) else 0) for each in plain]

    @property
    def node(self) -> Any:
        return self.kept.grad_fn

    def some(self, read: Sequence[bool], error: RuntimeError) -> Sequence[Any]:
        assert self.apart is not None
        pairs = list(zip(self.apart, read, strict=False))
        if any(is_read and _is_followed(each) and version_of(each) != version for (each, version), is_read in pairs):
            raise error from None
        return [each if is_read else None for (each, _), is_read in pairs]


def _is_followed(value: object) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_inference()


def saved_by(ctx: Any, reads: Callable[[], Sequence[bool]] | None = None) -> Sequence[Any]:
    """The tensors that forward saved; raises autograd's error where one is gone or was written to, if it is among those
    that the caller `reads`."""
    holder: Held | None = getattr(ctx, "holder", None)
    node = ctx if holder is None else holder.node
    try:
        found: Sequence[Any] = node.saved_tensors
    except RuntimeError as error:
        if reads is not None and unpack:
            return _some(node._raw_saved_tensors, reads(), error)
        if reads is not None and holder is not None:
            return holder.some(reads(), error)
        raise
    return found


def results_of(ctx: Any, found: Sequence[Any], saved: int) -> Sequence[torch.Tensor] | None:
    """The results that a node saved, with the history that the caller sees; None where autograd has freed them.

    ``found``: the answer of `saved_by`, if it was asked, in which they may follow that many others; nothing is read
    twice, which a checkpoint around the function would refuse.
    """
    if len(found) > saved:
        return found[saved:]
    try:
        ctx._raw_saved_tensors  # noqa: B018 - asking tells whether they are there
    except RuntimeError:
        return None
    results: Sequence[torch.Tensor] = ctx.saved_tensors[saved if getattr(ctx, "holder", None) is None else 0 :]
    return results


def _some(saved: Sequence[object], read: Sequence[bool], error: RuntimeError) -> Sequence[Any]:
    try:
        return [unpack(each) if is_read else None for each, is_read in zip(saved, read, strict=False)]
    except RuntimeError:  # torch gives a function's own results to nobody else
        raise error from None
