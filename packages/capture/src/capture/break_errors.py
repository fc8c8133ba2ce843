"""``error_on_graph_break(True)``, on this thread: a break within it is an error."""

from __future__ import annotations

from capture import state


def set_here() -> bool:
    """True if breaks are errors where CPython stands; what is evaluated begins with it."""
    return state.PROCESS.of_thread.breaks_are_errors


def switch(context: object, errors: bool) -> bool:
    """Makes breaks errors from now on, or records again; returns what was before.  ``context`` is who switches."""
    here = state.PROCESS.of_thread
    before, here.breaks_are_errors = here.breaks_are_errors, errors
    return before
