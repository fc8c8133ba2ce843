"""A class that can be named before the package it lies in has run.

torch keeps classes that it asked for, so such a class hands everything to the genuine one once there is one.
"""

from __future__ import annotations

from typing import Any

from compile_api.importing.deferred import Deferral


class LateClass(type):
    """The metaclass of a class that stands for one of the same name in a package that may not have been loaded."""

    home: Deferral

    def __instancecheck__(cls, instance: object) -> bool:
        return not cls.home.waiting and isinstance(instance, cls.real())

    def __subclasscheck__(cls, subclass: type) -> bool:
        return not cls.home.waiting and issubclass(subclass, cls.real())

    def __call__(cls, *args: object, **options: object) -> Any:
        return cls.real()(*args, **options)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.real(), name)

    def real(cls) -> Any:
        return getattr(cls.home.load(), cls.__name__)
