"""Errors of tracing, told with the user's line."""

from __future__ import annotations

import re

from torch import fx

from aotgrad.errors import DependsOnValues
from aotgrad.torch_versions import DataDependentOutputException, DynamicOutputShapeException

ON_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
"""The exceptions of fake tensors for a size or number that depends on values."""


def depends_on_values(error: Exception, source: fx.Node | None) -> DependsOnValues:
    what = f"a size or number depends on the values of a tensor ({error})"
    return DependsOnValues(what, "keep that call out of the graph", place_of(source))


def place_of(source: fx.Node | None) -> str:
    """The user's line behind a node of the program's graph, where the graph knows it."""
    trace = "" if source is None else source.meta.get("stack_trace") or ""
    found = re.findall(r'File "([^"]+)", line (\d+)', trace)
    return ":".join(found[-1]) if found else ""
