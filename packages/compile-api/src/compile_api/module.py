"""A compiled ``nn.Module``: the same module in every respect but how it is called.

The compiled module shares its instance dictionary with the original.  Parameters, buffers, hooks, ``state_dict`` keys,
``train``/``eval``/``to`` and attribute writes are therefore one and the same on both, and ``isinstance`` holds.  State
that torch's own wrapper saved, with its ``_orig_mod.`` in the keys, is loaded too, and libraries that ask for that
wrapper are told that this is one.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from types import MemberDescriptorType
from typing import Any, ClassVar

import torch

Recompile = Callable[[Any], Any]

WRAPPED = "_orig_mod"
_OWN = ("_compiled_call", "_original", "_recompile")
_HEAP_TYPE = 1 << 9
"""The flag of classes that Python code made, in ``type.__flags__``."""


def compiled_module(original: torch.nn.Module, call: Callable[..., Any], recompile: Recompile) -> torch.nn.Module:
    """``original`` with its call replaced; ``recompile`` makes a copy's compiled form (for deepcopy and pickle)."""
    base = type(original)
    cls = _class_of(base)
    module: torch.nn.Module = _builtin_new(cls)(cls)
    # nn.Module's own __setattr__ would file these as state of the module.
    for name, value in zip(_OWN, (call, original, recompile), strict=True):
        object.__setattr__(module, name, value)
    object.__setattr__(module, "__dict__", original.__dict__)
    return module


def _class_of(base: type) -> type:
    """The class of all compiled modules of a class: a copy is an instance of its original's class, as in eager."""
    subclasses: list[type] = type.__subclasses__(base)
    made = (cls for cls in subclasses if vars(cls).get("_written_as") is base)
    return next(made, None) or _new_class_of(base)


def _new_class_of(base: type) -> type:
    """A subclass of ``base`` that nobody notices: what registers subclasses, or refuses them, does not see it."""
    unscripted = (*getattr(base, "__jit_unused_properties__", ()), WRAPPED, "dynamo_ctx", "__class__")
    about: dict[str, Any] = {
        **{name: value for name, value in vars(base).items() if name in ("__doc__", "__module__")},
        **{name: _forwarded(name) for name in _slots(base)},
        "__slots__": _OWN,
        "__qualname__": base.__qualname__,
        "__jit_unused_properties__": unscripted,
        "_written_as": base,
    }
    if issubclass(base, torch.fx.GraphModule):  # what it computes is written into its class whenever its graph changes
        about["recompile"] = lambda self: self._original.recompile()
    bases = (base,) if issubclass(base, SameModule) else (SameModule, base)
    return type.__new__(type(base), base.__name__, bases, about)


def _builtin_new(cls: type) -> Any:
    """The ``__new__`` that makes room for an instance and does nothing else, past those that classes define."""
    return next(base.__new__ for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)


def _slots(base: type) -> list[str]:
    """Attributes that instances keep outside of their dictionary, which is all that two modules can share."""
    return [
        name
        for cls in base.__mro__
        if cls.__flags__ & _HEAP_TYPE
        for name, value in vars(cls).items()
        if isinstance(value, MemberDescriptorType) and name not in _OWN
    ]


def _forwarded(name: str) -> property:
    return property(
        lambda self: getattr(self._original, name),
        lambda self, value: setattr(self._original, name, value),
        lambda self: delattr(self._original, name),
    )


class SameModule:
    """The attributes that the class of a compiled module defines before its original's class does."""

    __slots__ = ()
    wraps_for_torch = True
    _written_as: ClassVar[type]
    _compiled_call: Callable[..., Any]
    _original: torch.nn.Module
    _recompile: Recompile

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an uncompiled instance of the class that was written, which ``type(compiled)(...)`` in the user's code
        means."""
        return cls._written_as(*args, **kwargs)

    def __init_subclass__(cls, **_: object) -> None:
        """A class that keeps a list of its subclasses is not told of this one."""

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self._compiled_call(*args, **kwargs)

    def __copy__(self) -> Any:
        return self._recompile(copy.copy(self._original))

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        return self._recompile(copy.deepcopy(self._original, memo))

    def __reduce__(self) -> tuple[Any, ...]:
        return self._recompile, (self._original,)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return self.__reduce__()

    @property
    def _orig_mod(self) -> torch.nn.Module:
        """The module as it was given to ``compile``."""
        return self._original

    @_orig_mod.setter
    def _orig_mod(self, module: torch.nn.Module) -> None:
        self.__setattr__(WRAPPED, module)

    @property
    def dynamo_ctx(self) -> Recompile:
        """The function that compiles another function or module as this one was; torch's wrapper has it under this
        name."""
        return self._recompile

    def __getattr__(self, name: str) -> Any:
        """Asks the original where this class lacks a name: its class may have changed since, as parametrizations make
        properties of parameters."""
        try:
            return super().__getattr__(name)  # type: ignore[misc]
        except AttributeError:
            return getattr(self._original, name)

    def __setattr__(self, name: str, value: object) -> None:
        """Recompiles for a module put in the original's place: libraries unwrap a module, wrap it in something else,
        and put that back."""
        if name != WRAPPED:
            super().__setattr__(name, value)
        elif value is not self._original:
            again = self._recompile(value)
            for each in _OWN:
                object.__setattr__(self, each, getattr(again, each))
            object.__setattr__(self, "__dict__", value.__dict__)

    def _load_from_state_dict(self, state_dict: dict[str, object], prefix: str, *rest: object) -> None:
        without_wrappers(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]

    @property
    def __class__(self) -> type:
        return recognised(type(self))

    @__class__.setter
    def __class__(self, cls: type) -> None:
        vars(object)["__class__"].__set__(self, cls)


def without_wrappers(state_dict: dict[str, object], prefix: str) -> None:
    """Renames, in place, what torch's wrapper saved below ``prefix``."""
    wrapped = f"{prefix}{WRAPPED}."
    for key in [key for key in state_dict if key.startswith(wrapped)]:
        state_dict[prefix + key.removeprefix(wrapped)] = state_dict.pop(key)
    metadata: Mapping[str, Any] | None = getattr(state_dict, "_metadata", None)
    if isinstance(metadata, dict):
        for key in [key for key in metadata if f"{key}.".startswith(wrapped)]:
            metadata[(prefix + f"{key}.".removeprefix(wrapped)).removesuffix(".")] = metadata.pop(key)


def torchs_wrapper() -> type | None:
    """The class that libraries ask for to recognise a compiled module, if torch's compiler has been imported."""
    home = sys.modules.get("torch._dynamo.eval_frame")
    found = None if home is None else vars(home).get("OptimizedModule")
    return found if isinstance(found, type) else None


def recognised(cls: type) -> type:
    """A class for ``isinstance`` to find: the module's own, and torch's wrapper."""
    wrapper = torchs_wrapper()
    if wrapper is None:
        return cls
    # A class for each class, made once: ``isinstance`` asks for it every time.
    known = vars(cls).get("_recognised_as")
    if known is None or wrapper not in known.__mro__:
        about = {
            "__slots__": (),
            "__qualname__": cls.__qualname__,
            "__module__": cls.__module__,
            "__doc__": cls.__doc__,
        }
        known = type.__new__(type(cls), cls.__name__, (cls, wrapper), about)
        type.__setattr__(cls, "_recognised_as", known)
    return known
