"""Answers to what torch asks of tensors, as long as none is spread over several machines.

Operators on fake tensors ask whether an operand is a ``DTensor``, and to ask torch imports its distributed tensors, and
sympy with them.  There is none before somebody else has imported that package, so until then the class is a
placeholder.  torch keeps what it was given, so the placeholder hands everything to the class itself once there is one.
"""

from __future__ import annotations

from compile_api.importing.deferred import Deferral, defer
from compile_api.importing.late import LateClass

NAME = "torch.distributed.tensor"


def _late_class(home: Deferral) -> type:
    return LateClass("DTensor", (), {"home": home})


def put_off() -> None:
    """Puts off torch's distributed tensors: until a program uses them nothing is one."""
    defer(NAME, {"DTensor": _late_class})
