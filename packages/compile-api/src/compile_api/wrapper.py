"""The wrapper that programs get from ``torch.compile``: a module with one child, ``_orig_mod``.

Programs written for torch's own compiler know its wrapper: keys of its state begin with ``_orig_mod.``, hooks that are
put on it run around the compiled call, and every other attribute is the wrapped module's.  Served programs get that;
``compile_api.compile`` itself returns a module with plain keys.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from compile_api.module import WRAPPED, recognised

_OWN = (WRAPPED, "dynamo_ctx", "forward", "_compiled_call", "__dict__")


class OptimizedModule(torch.nn.Module):
    """``module``, called through ``call``; ``again`` makes the compiled form of another module or function."""

    wraps_for_torch = True
    _ready = False

    def __init__(self, module: torch.nn.Module, call: Callable[..., Any], again: Callable[[Any], Any]) -> None:
        super().__init__()
        self._modules[WRAPPED] = module
        self.__dict__.update(forward=call, _compiled_call=call, dynamo_ctx=again, _ready=True)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self._has_hooks():
            return super().__call__(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _has_hooks(self) -> bool:
        """True if hooks were put on the wrapper itself; the module's own run with it."""
        own = vars(self)
        names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        return any(own[name] for name in names)

    def __getattr__(self, name: str) -> Any:
        wrapped = vars(self)["_modules"][WRAPPED]
        return wrapped if name == WRAPPED else getattr(wrapped, name)

    def __setattr__(self, name: str, value: object) -> None:
        if not self._ready or (name in _OWN and name != WRAPPED) or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif name == WRAPPED:
            self._modules[WRAPPED] = value
            # Another module in its place needs code of its own.
            again = self.dynamo_ctx(value)
            self.__dict__.update(forward=again.forward, _compiled_call=again._compiled_call)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or hasattr(type(self), name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    @property
    def training(self) -> bool:
        return bool(self._orig_mod.training)

    @training.setter
    def training(self, value: bool) -> None:
        if self._ready:  # nn.Module's own __init__ sets what every module starts with
            self._orig_mod.training = value

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __bool__(self) -> bool:
        # Without this Python would ask ``__len__``, which the module may not have.
        return True

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __copy__(self) -> Any:
        return self.dynamo_ctx(self._orig_mod)

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        return self.dynamo_ctx(copy.deepcopy(self._orig_mod, memo))

    def __prepare_scriptable__(self) -> torch.nn.Module:
        """The module whose source ``torch.jit.script`` reads."""
        wrapped: torch.nn.Module = self._orig_mod
        return wrapped

    def __reduce__(self) -> tuple[Any, ...]:
        return self.dynamo_ctx, (self._orig_mod,)

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return self.__reduce__()

    @property
    def __class__(self) -> type:
        return recognised(type(self))

    @__class__.setter
    def __class__(self, cls: type) -> None:
        # The property hides object's own descriptor, which is what changes a class.
        vars(object)["__class__"].__set__(self, cls)
