"""Functions that ``torch.jit`` compiled, as graphs call them.

TorchScript learns from its first calls what it is called with, and compiles for that: what a backend traces, on tensors
without data, is to teach it nothing, and is not to meet kernels that it has fused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from capture.operators.triton_kernels.traces import is_fake


@functools.cache
def calling(function: torch.jit.ScriptFunction) -> Callable[..., object]:
    """The function that a graph calls: FX wants a name, and all scripted functions have that of their class."""

    def call(*args: object, **kwargs: object) -> object:
        if not is_fake([*args, *kwargs.values()]):
            return function(*args, **kwargs)
        with torch.jit.optimized_execution(False):
            return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = f"scripted_{function.name}"
    return call
