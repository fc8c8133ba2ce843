"""``torch.fx`` and functions that were compiled: what it traces is the function as it was written.

Functions that call compiled ones are traced through them in any case; of what it is given itself it wants a function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

import capture


def trace_as_written() -> Callable[[], None]:
    """Lets tracers of torch.fx see a compiled function as it was written; returns the way back."""
    genuine = torch.fx.Tracer.trace

    @functools.wraps(genuine)
    def trace(tracer: torch.fx.Tracer, root: Any, *more: Any, **options: Any) -> torch.fx.Graph:
        return genuine(tracer, capture.as_written(root), *more, **options)

    torch.fx.Tracer.trace = trace

    def back() -> None:
        torch.fx.Tracer.trace = genuine

    return back
