"""Hooks on the tensors that autograd keeps for backward, ``torch.autograd.graph.saved_tensors_hooks``.

Compiled code keeps other tensors, and fewer.  Where the program has such hooks CPython runs it, so that they see what
they see in eager; those of torch's own, a checkpoint's for one, are as content with others.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from capture.torch_versions import saved_tensors_hooks_set_tracing, top_saved_tensors_default_hooks

_set_tracing: Any = saved_tensors_hooks_set_tracing
innermost: Callable[[], Any] = functools.partial(top_saved_tensors_default_hooks, False)
"""The hooks in force, or None."""


def are_shown() -> bool:
    """True if they are shown to code of the program."""
    hooks = innermost()
    return hooks is not None and not all(str(getattr(hook, "__module__", "")).startswith("torch.") for hook in hooks)


@contextlib.contextmanager
def not_shown() -> Iterator[None]:
    """A context in which nobody is told of what is kept: tensors without data are none of the program's.

    The hooks stay in force, because they may end meanwhile: a region that raised takes them along when its exception
    is freed, whoever has put them aside would put them back for good.
    """
    before = _set_tracing(True)
    try:
        yield
    finally:
        _set_tracing(before)


@contextlib.contextmanager
def new_ones_shown() -> Iterator[None]:
    """A context in which hooks that are put in force within are called, as those of a backend's checkpoint.

    Those from before stay unheard, under hooks that do nothing: only the innermost are called.
    """
    before = _set_tracing(False)
    try:
        if innermost() is None:
            yield
        else:
            with torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
                yield
    finally:
        _set_tracing(before)


def _as_it_is(saved: torch.Tensor) -> torch.Tensor:
    return saved
