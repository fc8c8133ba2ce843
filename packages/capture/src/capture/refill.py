"""What transformed code calls to give an instance of a container's subclass its contents, past its own methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def refill_mapping(obj: Any, base: Any, contents: Mapping[Any, Any]) -> Any:
    """Make ``contents`` all that ``obj`` holds; ``base`` is the builtin class that holds it."""
    if base.__len__(obj):
        base.clear(obj)
    for key, value in contents.items():
        base.__setitem__(obj, key, value)
    return obj


def refill_sequence(obj: Any, base: Any, contents: Iterable[Any]) -> Any:
    base.clear(obj)
    (base.update if base is set else base.extend)(obj, contents)
    return obj
