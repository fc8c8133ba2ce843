"""Autograd's state of fake tensors: where a history begins, and what a backward has used up of it.

Autograd's own record of an operation is the one thing that knows writes in place, views, detached tensors and modes
without gradients; the graph's data flow knows none of these.

Tensors made within a graph that want a gradient of their own: a backward within the same graph finds them.  One that
comes later, after a break or in the caller, starts from what the graph gave and has to arrive at the program's own
object: then CPython makes it, between two graphs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch


def asking_for_histories() -> AbstractContextManager[object]:
    """A context in which histories may be asked for.

    Asking remakes the ``grad_fn`` of a view that was written to, which in inference mode would come out without its
    past.
    """
    return torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()


def has_known_history(tensor: torch.Tensor) -> bool:
    """True if torch answers questions about the history.

    It tells nothing of a view that was made without histories and whose base has one since: every question raises.
    """
    try:
        with asking_for_histories():
            _ = tensor.grad_fn
    except RuntimeError:
        return False
    return True


def is_leaf(tensor: torch.Tensor) -> bool:
    """True for a leaf of autograd, where torch can say so."""
    return has_known_history(tensor) and bool(tensor.is_leaf)


class History:
    """Everything behind some tensors, up to their origins or to the steps that ``until`` names."""

    def __init__(self, results: Iterable[torch.Tensor], until: Iterable[object] = ()) -> None:
        self.origins: dict[int, torch.Tensor] = {}
        self.steps: dict[Any, None] = {}
        ends = set(until)
        waiting = []
        # A leaf that wants a gradient has no step of its own before it is used: it is the beginning itself.
        for result in results:
            if result.grad_fn is not None:
                waiting.append(result.grad_fn)
            elif result.requires_grad:
                self.origins[id(result)] = result
        while waiting:
            step = waiting.pop()
            if step is None or step in self.steps:
                continue
            self.steps[step] = None
            # AccumulateGrad, the step in which a history arrives at a leaf.
            if hasattr(step, "variable"):
                self.origins[id(step.variable)] = step.variable
            if step not in ends:
                waiting.extend(before for before, _ in reversed(step.next_functions))

    def beginnings(self) -> set[object]:
        """The steps that nothing comes before."""
        return {step for step in self.steps if not any(before for before, _ in step.next_functions)}

    def used_up(self, readers: Collection[type]) -> Iterator[object]:
        """The steps of which a backward has freed what another would need.

        Of functions with a backward of their own that matters to ``readers`` only.
        """
        return (step for step in self.steps if _has_let_go(step, readers))


def _has_let_go(step: object, readers: Collection[type]) -> bool:
    """True if a backward has freed a tensor that this step saved for another one."""
    kind: Any = type(step)
    if hasattr(kind, "_forward_cls") and not any(issubclass(kind._forward_cls, reader) for reader in readers):
        return False
    return any(_is_gone(step, name) for name in _names_of_saved(kind))


def _is_gone(step: object, name: str) -> bool:
    """True if the saved tensor was freed; being written to since is another error, and none of this."""
    try:
        getattr(step, name)
    except RuntimeError as error:  # or it was written to since, which is another error
        return is_used_up(error)
    return False


def keep(results: Iterable[torch.Tensor], kept: Callable[[torch.Tensor], bool]) -> bool:
    """True if a step behind these results still has such a tensor for its backward."""
    with asking_for_histories():
        return any(kept(each) for step in History(filter(has_known_history, results)).steps for each in _saved_by(step))


def _saved_by(step: object) -> Iterator[torch.Tensor]:
    """The tensors that a step still has for its backward."""
    kind: object = type(step)
    for name in _names_of_saved(kind):
        try:
            saved = getattr(step, name)
        except RuntimeError:  # it was used up
            continue
        yield from (each for each in (saved if isinstance(saved, tuple) else (saved,)) if torch.is_tensor(each))


def is_used_up(error: BaseException) -> bool:
    """True if torch says that a history was freed.

    Only the words tell: the type of the error is the same for all that autograd refuses.
    """
    return "second time" in str(error)


@functools.cache
def _names_of_saved(kind: object) -> tuple[str, ...]:
    """The attributes by which a kind of step shows the tensors that it keeps for its backward."""
    if hasattr(kind, "saved_tensors"):
        return ("saved_tensors",)
    return tuple(raw.removeprefix("_raw") for raw in dir(kind) if raw.startswith("_raw_saved_"))


def are_needed(leaves: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> bool:
    """True if somebody can ask a leaf for its gradient, or would miss a history that begins with them alone."""
    if not leaves:
        return False
    made = set(map(id, leaves))
    if any(id(result) in made for result in results):
        return True
    known = [result for result in results if has_known_history(result)]
    return any(result.grad_fn is not None and set() < set(History([result]).origins) <= made for result in known)
