"""A compiled ``nn.Module``: the same module in every respect but how it is called.

The compiled module shares its instance dictionary with the original.  Parameters, buffers, hooks, ``state_dict`` keys,
``train``/``eval``/``to`` and attribute writes are therefore one and the same on both, and ``isinstance`` holds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

Recompile = Callable[[torch.nn.Module], torch.nn.Module]


def compiled_module(original: torch.nn.Module, call: Callable[..., Any], recompile: Recompile) -> torch.nn.Module:
    """``original`` with its call replaced; ``recompile`` makes a copy's compiled form (for deepcopy and pickle)."""
    base = type(original)

    class Compiled(base):  # type: ignore[misc, valid-type]
        __slots__ = ("_compiled_call", "_orig_mod", "_recompile")

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self._compiled_call(*args, **kwargs)

        def __copy__(self) -> torch.nn.Module:
            return self._recompile(copy.copy(self._orig_mod))

        def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
            return self._recompile(copy.deepcopy(self._orig_mod, memo))

        def __reduce__(self) -> tuple[Any, ...]:
            return self._recompile, (self._orig_mod,)

    if issubclass(base, torch.fx.GraphModule):
        # What it computes is written into its class, whenever its graph is changed: into that of the original.
        Compiled.recompile = lambda self: self._orig_mod.recompile()
    Compiled.__name__ = base.__name__
    Compiled.__qualname__ = base.__qualname__
    Compiled.__module__ = base.__module__
    Compiled.__doc__ = base.__doc__
    module = _bare(Compiled)
    # nn.Module's own __setattr__ would file these as state of the module.
    object.__setattr__(module, "__dict__", original.__dict__)
    object.__setattr__(module, "_compiled_call", call)
    object.__setattr__(module, "_orig_mod", original)
    object.__setattr__(module, "_recompile", recompile)
    return module


def _bare(cls: type[torch.nn.Module]) -> torch.nn.Module:
    """An instance that no ``__new__`` written in Python has a say in: some make instances of other classes, a graph
    module's for one."""
    solid: Any = next(base for base in cls.__mro__ if not base.__flags__ & _WRITTEN_IN_PYTHON)
    made: torch.nn.Module = solid.__new__(cls)
    return made


_WRITTEN_IN_PYTHON = 1 << 9  # a type that lives on the heap
