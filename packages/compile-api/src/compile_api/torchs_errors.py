"""Errors of ours that ``except torch._dynamo.exc...`` catches in a served program.

torch's classes become bases of ours once torch's compiler has been imported, which whoever names them in an ``except``
does; an error that is under way by then is caught too, as Python looks at the bases when it compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import capture
from compile_api.errors import UnknownBackend

_COUNTERPARTS: Mapping[type[Exception], str] = {
    capture.Unsupported: "Unsupported",
    capture.BackendError: "BackendCompilerFailed",
    capture.RecompileRefused: "RecompileError",
    capture.RecompileLimitHit: "FailOnRecompileLimitHit",
    UnknownBackend: "InvalidBackend",
}


def adopt() -> Callable[[], None]:
    """Makes torch's classes bases of ours, as far as torch has been imported; returns the way back."""
    home = sys.modules.get("torch._dynamo.exc")
    before = {ours: ours.__bases__ for ours in _COUNTERPARTS}
    for ours, name in _COUNTERPARTS.items():
        theirs = getattr(home, name, None)
        if isinstance(theirs, type) and issubclass(theirs, Exception) and not issubclass(ours, theirs):
            # What torch's class does when it is made concerns arguments that ours are not made with.
            base = type(name, (theirs,), {"__init__": Exception.__init__, "__str__": Exception.__str__})
            kept = (each for each in ours.__bases__ if not issubclass(theirs, each))
            ours.__bases__ = (*kept, base)

    def back() -> None:
        for ours, bases in before.items():
            ours.__bases__ = bases

    return back
