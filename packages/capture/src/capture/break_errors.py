"""``error_on_graph_break(True)``, on this thread: a break within it is an error."""

from __future__ import annotations

import threading


class _Here(threading.local):
    errors = False


_HERE = _Here()


def set_here() -> bool:
    """As CPython stands; what is evaluated begins with it."""
    return _HERE.errors


def switch(context: object, errors: bool) -> bool:
    """From now on breaks are errors, or are not; returns what was before.  ``context`` is who switches."""
    before, _HERE.errors = _HERE.errors, errors
    return before
