"""Answers to what torch and libraries ask of torch's own compiler, as long as a program does not use it.

torch's optimizers and transforms call a few markers of it at every step, and libraries ask whether a module is its
wrapper.  A program that uses more gets it whole.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from compile_api.importing.deferred import Deferral, defer
from compile_api.importing.late import LateClass
from compile_api.module import torchs_wrapper

PEER = "torch._dynamo"
OPENLY = ("disable", "graph_break", "OptimizedModule")
"""The names that libraries ask for, too, and may keep: these answers go on to the genuine ones once there are some."""


def late_disable(peer: Deferral) -> Callable[..., Any]:
    """An answer for the peer's ``disable``: while the peer has not been loaded there is nothing to disable, and once
    it has been its own answer counts."""

    def disable(fn: object = None, recursive: bool = True, **options: object) -> Any:
        if fn is None:
            return functools.partial(disable, recursive=recursive, **options)
        if not isinstance(fn, FunctionType | BuiltinFunctionType | MethodType):  # a module, a class: the peer's to wrap
            return vars(peer.load())["disable"](fn, recursive, **options)
        if not recursive and isinstance(fn, FunctionType):
            vars(fn).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=options.get("reason"))
            return fn
        return _disabled_late(peer, fn, recursive, options)

    return disable


def _disabled_late(peer: Deferral, function: Any, recursive: bool, options: Mapping[str, Any]) -> Any:
    genuine: list[Callable[..., Any]] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if peer.waiting or peer.loader is not None:
            return function(*args, **kwargs)
        if not genuine:
            genuine.append(vars(peer.module)["disable"](function, recursive, **options))
        return genuine[0](*args, **kwargs)

    # Capture reads these: a function that the program disabled stays disabled for it.
    vars(call).update(_torchdynamo_disable=True, _torchdynamo_disable_msg=options.get("reason"), _wraps_disabled=True)
    return call


def no_graph_break(peer: Deferral) -> Callable[..., None]:
    """An answer for a marker that torch's optimizers call at every step; it concerns the peer's graphs alone."""

    def graph_break(msg: str = "") -> None:
        if not peer.waiting and peer.loader is None:
            vars(peer.module)["graph_break"](msg)

    return graph_break


class NothingCompiled:
    """Stands for the peer's compiler of backward passes where torch's transforms switch it off."""

    def __init__(self, peer: Deferral) -> None:
        self._peer = peer

    @staticmethod
    def _disable() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self._peer.load())["compiled_autograd"], name)


class LateWrapper(LateClass, type):
    """The metaclass of a class that stands for torch's wrapper of compiled modules: ours are instances of it."""

    def __instancecheck__(cls, instance: object) -> bool:
        genuine = torchs_wrapper()
        ours = getattr(type(instance), "wraps_for_torch", False)
        return bool(ours or (genuine is not None and isinstance(instance, genuine)))

    def __subclasscheck__(cls, subclass: type) -> bool:
        genuine = torchs_wrapper()
        ours = getattr(subclass, "wraps_for_torch", False)
        return bool(ours or (genuine is not None and issubclass(subclass, genuine)))

    def real(cls) -> Any:
        cls.home.load()
        return torchs_wrapper()


def late_wrapper(peer: Deferral) -> type:
    return LateWrapper("OptimizedModule", (), {"home": peer, "__module__": f"{PEER}.eval_frame"})


def put_off() -> None:
    """Defers torch's own compiler, which nothing of ours uses."""
    answers: Mapping[str, Callable[[Deferral], Any]] = {
        "disable": late_disable,
        "graph_break": no_graph_break,
        "compiled_autograd": NothingCompiled,
        "OptimizedModule": late_wrapper,
    }
    peer = defer(PEER, answers, light=("config", "source", "eval_frame"), openly=OPENLY)
    if peer is not None:
        wrapper = peer.answers["OptimizedModule"]
        defer(f"{PEER}.eval_frame", {"OptimizedModule": lambda real: wrapper}, openly=OPENLY)
