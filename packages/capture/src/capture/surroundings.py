"""Torch's modes as the program had them when something of ours began, for code of the program's that runs within it.

A handler of a signal runs wherever it comes: between two instructions of a compiler, say, where operators give fake
tensors or gradients are switched off.  What it computes are the program's own tensors.
Must not know: what is under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from capture.torch_versions import (
    ForceDispatchKeyGuard,
    dispatch_tls_local_exclude_set,
    dispatch_tls_local_include_set,
    len_torch_dispatch_stack,
    pop_torch_dispatch_stack,
    push_on_torch_dispatch_stack,
)

_KNOWN = bool(
    ForceDispatchKeyGuard
    and dispatch_tls_local_include_set
    and dispatch_tls_local_exclude_set
    and pop_torch_dispatch_stack
    and push_on_torch_dispatch_stack
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The modes of a thread: dispatch keys at work, and whether gradients and inference tensors are made."""

    keys: tuple[object, ...]  # switched on, and off; none with a torch that does not tell
    modes: int  # of the program's own, the lowest of the stack
    gradients: bool
    inference: bool

    @staticmethod
    def now() -> Surroundings:
        return Surroundings(
            (dispatch_tls_local_include_set(), dispatch_tls_local_exclude_set()) if _KNOWN else (),
            len_torch_dispatch_stack(),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
        )

    @contextmanager
    def back(self) -> Iterator[None]:
        """A context in which all is as it was then."""
        with ExitStack() as entered:
            if torch.is_inference_mode_enabled() is not self.inference:
                entered.enter_context(torch.inference_mode(self.inference))
            entered.enter_context(torch.set_grad_enabled(self.gradients))
            if self.keys:
                entered.enter_context(_without_later_modes(self.modes))
                entered.enter_context(ForceDispatchKeyGuard(*self.keys))
            yield


@contextmanager
def _without_later_modes(count: int) -> Iterator[None]:
    """A context without the dispatch modes above the first so many.

    While one of them is at work torch has it off the stack.
    """
    taken = []
    try:
        while len_torch_dispatch_stack() > count:
            taken.append(pop_torch_dispatch_stack(None))  # whichever is the last
        yield
    finally:
        while taken:
            push_on_torch_dispatch_stack(taken.pop())
