"""What transformed code calls to give an instance of a container's subclass its contents, past its own methods."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Mapping
from typing import Any


def refill_mapping(obj: Any, base: Any, contents: Mapping[Any, Any]) -> Any:
    """Make ``contents`` all that ``obj`` holds; ``base`` is the builtin class that holds it.

    Where the keys are what they were, whoever is iterating over them goes on.
    """
    same = base.__len__(obj) == len(contents) and all(map(operator.is_, base.__iter__(obj), contents))
    if not same:
        base.clear(obj)
    for key, value in contents.items():
        if not same or dict.__getitem__(obj, key) is not value:
            base.__setitem__(obj, key, value)
    return obj


def refill_sequence(obj: Any, base: Any, contents: Any) -> Any:
    """The same for a list, a deque or a set."""
    if base is deque and len(contents) == deque.__len__(obj):
        for index, item in enumerate(contents):
            deque.__setitem__(obj, index, item)
        return obj
    base.clear(obj)
    (base.update if base is set else base.extend)(obj, contents)
    return obj
