"""Tensor subclasses that wrap other tensors (`__torch_dispatch__`, `__tensor_flatten__`): only those reach the graph.

While a program is traced it sees real subclass objects around traced tensors: autograd works on the objects, their
`__torch_dispatch__` runs once, and what it does to the tensors within is recorded.  At run time those go in and come
out; the objects are opened and closed around them under autograd.
Must not know: how graphs are split, compiled or called.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aotgrad.tensors import functional
from aotgrad.torch_versions import TorchDispatchMode, is_traceable_wrapper_subclass, pytree

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass(frozen=True, slots=True)
class Other:
    """A part of an object that is no tensor: a device mesh, for example."""

    value: Any


@dataclass(frozen=True, slots=True)
class Wrapping:
    """The structure of a subclass object: everything about it but the plain tensors within."""

    kind: type
    parts: tuple[tuple[str, Wrapping | Other | None], ...]
    context: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]
    requires_grad: bool

    @property
    def key(self) -> Hashable:
        """A key that is equal for objects that make the same graph; never for what cannot be hashed."""
        parts = tuple((name, _key(inner)) for name, inner in self.parts)
        return self.kind, parts, _key(Other(self.context)), self.size, self.stride, self.requires_grad

    def build(self, tensors: Iterator[torch.Tensor]) -> torch.Tensor:
        """The object around the next of `tensors`."""
        parts = {name: _part(inner, tensors) for name, inner in self.parts}
        build: Callable[..., torch.Tensor] = self.kind.__tensor_unflatten__  # type: ignore[attr-defined]
        return build(parts, self.context, self.size, self.stride)


def _part(inner: Wrapping | Other | None, tensors: Iterator[torch.Tensor]) -> Any:
    if inner is None:
        return next(tensors)
    return inner.value if isinstance(inner, Other) else inner.build(tensors)


def _key(inner: Wrapping | Other | None) -> Hashable:
    if isinstance(inner, Other):
        return inner.value if _is_hashable(inner.value) else _Unlike()
    return None if inner is None else inner.key


class _Unlike:
    """A key that is equal to nothing, not even to another of its kind."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return False


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def is_wrapped(value: object) -> bool:
    """True for an object of a subclass that wraps tensors."""
    return isinstance(value, torch.Tensor) and type(value) not in _PLAIN and is_traceable_wrapper_subclass(value)


def unwrap(value: torch.Tensor) -> tuple[Wrapping | None, list[torch.Tensor]]:
    """The wrapping of `value` and the plain tensors within, in order; no wrapping and `value` itself for a plain
    one."""
    if not is_wrapped(value):
        return None, [value]
    names, context = value.__tensor_flatten__()
    parts: list[tuple[str, Wrapping | Other | None]] = []
    tensors = []
    for name in names:
        part = getattr(value, name)
        if isinstance(part, torch.Tensor):
            # An object may wrap another one.
            inner, found = unwrap(part)
            parts.append((name, inner))
            tensors += found
        else:
            parts.append((name, Other(part)))
    size, stride = tuple(value.size()), tuple(value.stride())
    return Wrapping(type(value), tuple(parts), context, size, stride, value.requires_grad), tensors


def unwrap_all(values: Sequence[Any]) -> tuple[tuple[Wrapping | None, ...], list[Any]]:
    """For each value its wrapping, or None for a plain one; and all values with the wrapped ones opened."""
    wrappings, flat = [], []
    for value in values:
        wrapping, inner = unwrap(value) if isinstance(value, torch.Tensor) else (None, [value])
        wrappings.append(wrapping)
        flat += inner
    return tuple(wrappings), flat


def wrapped_positions(wrappings: Sequence[Wrapping | None]) -> Iterator[tuple[int, bool] | None]:
    """For each flat value the object that it is within and whether that requires grad; None outside of any."""
    for index, wrapping in enumerate(wrappings):
        yield from ((index, wrapping.requires_grad) for _ in range(count(wrapping))) if wrapping else (None,)


def count(wrapping: Wrapping | Other | None) -> int:
    """The number of plain tensors within."""
    if isinstance(wrapping, Other):
        return 0
    return 1 if wrapping is None else sum(count(inner) for _, inner in wrapping.parts)


def wrap_all(wrappings: Sequence[Wrapping | None], flat: Sequence[object]) -> list[Any]:
    """The inverse of `unwrap_all`."""
    values = iter(flat)
    return [next(values) if wrapping is None else wrapping.build(values) for wrapping in wrappings]


class SubclassDispatch(TorchDispatchMode):
    """The dispatch mode for operators below autograd while subclass objects are about.

    Functionalization comes ahead of `__torch_dispatch__` and cannot see into objects: it is switched off, the objects'
    own handlers run first, and it is on again for operators on plain tensors.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(is_wrapped(leaf) for leaf in pytree.tree_leaves((args, kwargs))):
            return NotImplemented  # torch then calls the object's own handler, within which this mode is in force
        with functional.below_autograd():
            return func(*args, **kwargs)


# -- run time ----------------------------------------------------------------------------------------------------------


class Open(torch.autograd.Function):
    """The autograd function that takes the plain tensors out of an object; their gradients become one of the object."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, gradient: Wrapping | None) -> tuple[torch.Tensor, ...]:
        ctx.gradient = gradient
        ctx.set_materialize_grads(False)
        return tuple(inner.detach() for inner in unwrap(value)[1])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, None]:
        if ctx.gradient is None or all(gradient is None for gradient in gradients):
            return None, None
        return ctx.gradient.build(iter(gradients)), None


class Close(torch.autograd.Function):
    """The autograd function that puts plain tensors into an object; its gradient becomes gradients of those."""

    @staticmethod
    def forward(ctx: Any, wrapping: Wrapping, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.count = len(tensors)
        ctx.set_materialize_grads(False)
        return wrapping.build(iter([tensor.detach() for tensor in tensors]))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if gradient is None:
            return (None,) * (1 + ctx.count)
        tensors = unwrap(gradient)[1]
        if len(tensors) != ctx.count:
            raise RuntimeError("the gradient of a compiled tensor subclass arrives as another kind of tensor")
        return None, *tensors
