"""Calls that a function takes, and others: rules are written for those, and would take some that CPython refuses.

Must not know what a function does.
"""

from __future__ import annotations

import _thread
import builtins
import functools
import inspect
import itertools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping

from capture.evaluator.builtin_rules.registry import hashable_in
from capture.values.base import root_package

_ANY = None
"""The keywords of what takes whatever it is given."""
_ONES = _thread.LockType, type(_thread.RLock())
_KEYWORDS: dict[object, Collection[str] | None] = {
    **dict.fromkeys((dict, OrderedDict, defaultdict, dict.update, OrderedDict.update), _ANY),
    **dict.fromkeys((functools.partial, builtins.breakpoint, builtins.__build_class__), _ANY),
    **dict.fromkeys((min, max), ("key", "default")),
    **dict.fromkeys((list.__init__, set.__init__), ()),
    **{getattr(cls, name): ("blocking", "timeout") for cls in _ONES for name in ("acquire", "__enter__")},
    OrderedDict.pop: ("key", "default"), zip: ("strict",), deque: ("iterable", "maxlen"), int: ("base",),
    str: ("object", "encoding", "errors"), itertools.product: ("repeat",), itertools.repeat: ("object", "times"),
}  # fmt: skip
"""The keywords of functions in C that do not say which they take; others of C take none."""
_MODULES = frozenset({"builtins", "_operator", "itertools", "_functools", "_collections", "collections", "math", "re"})


@functools.cache
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def is_accepted(function: object, count: int, kwargs: Mapping[str, object]) -> bool:
    """True for a call with so many arguments and these keywords that the function may take.

    Of most functions positions are those of their rules; that is asked where there are keywords.
    """
    if not kwargs or not callable(function):
        return True
    if hashable_in(function, _NAMED):
        keywords = _KEYWORDS[function]
        return keywords is _ANY or all(name in keywords for name in kwargs)
    signature = _signature(function)
    if signature is None:
        return root_package(getattr(function, "__objclass__", function)) not in _MODULES
    try:
        signature.bind(*itertools.repeat(None, count), **kwargs)
    except TypeError:
        return False
    return True


_NAMED = set(_KEYWORDS)
