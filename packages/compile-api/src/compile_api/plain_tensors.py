"""Answers what torch asks of tensors, as long as none is spread over several machines.

Operators on fake tensors ask whether an operand is a ``DTensor``, and to ask torch imports its distributed tensors, and
sympy with them.  There is none before somebody else has imported that package, so until then the class is given by a
stand-in.  torch keeps what it was given, so the stand-in hands everything to the class itself once there is one.
"""

from __future__ import annotations

from typing import Any

from compile_api.deferred import AskedInPassing, Deferral, defer

NAME = "torch.distributed.tensor"


class Late(type):
    """The metaclass of a class that stands for one of the same name in a package that may not have been loaded."""

    home: Deferral

    def __instancecheck__(cls, instance: Any) -> bool:
        return not cls.home.waiting and isinstance(instance, cls.real())

    def __subclasscheck__(cls, subclass: type) -> bool:
        return not cls.home.waiting and issubclass(subclass, cls.real())

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return cls.real()(*args, **options)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real(), name)

    def real(cls) -> Any:
        return getattr(cls.home.load(), cls.__name__)


def _late_class(home: Deferral) -> type:
    return Late("DTensor", (), {"home": home})


def defer_distributed_tensors() -> None:
    """torch's distributed tensors: until a program uses them nothing is one."""
    defer(NAME, {"DTensor": _late_class}, light=(), kind=AskedInPassing)
