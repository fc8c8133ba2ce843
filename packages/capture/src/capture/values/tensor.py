"""Tensors: a node of the graph and a fake tensor that carries the metadata.

Reading an attribute answers from the fake, records an operation, or gives a method bound to the value; what the
program hung on a tensor, and its ``grad``, are kept in ``written`` until the frame leaves.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import fx

from capture.guards.kinds import GuardKind
from capture.guards.sources import AttrSource, ConstSource, DictSource, KeySource, Source
from capture.reasons import Kind
from capture.values.autograd_leaves import has_known_history, is_leaf
from capture.values.base import Tracer, Value, realize, rely_on_no_member, trusted, type_name
from capture.values.bound_methods import BOUND, attribute_of_bound
from capture.values.constant import NONE, ConstantValue, boolean, is_none
from capture.values.sequence import TupleValue

# What a fake tensor answers about its real one; anything else of a tensor is a method or an operation.
_METADATA = frozenset(
    {
        "dtype", "device", "layout", "ndim", "itemsize", "requires_grad", "is_cuda", "is_cpu", "is_sparse",
        "is_quantized", "is_mkldnn", "is_nested", "is_meta", "is_xpu", "is_mps", "output_nr", "is_sparse_csr",
    }
)  # fmt: skip
SET_DATA = torch.Tensor.data.__set__
"""The setter of ``x.data = y``."""
# Attributes that are operations: each gives another tensor over the same memory, or a copy.
_VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})


def _path_of_member(cls: type, name: str) -> AttrSource:
    return AttrSource(ConstSource(cls, f"torch.{cls.__name__}"), name)


@functools.cache
def _path_of_method(name: str) -> AttrSource:
    """One object for each: paths are compared, and keep their hashes."""
    return _path_of_member(torch.Tensor, name)


class TensorValue(Value):
    """A tensor: its node in the graph, and the fake tensor that the node gives."""

    def __init__(
        self, node: fx.Node, fake: torch.Tensor, source: Source | None = None, cls: type = torch.Tensor
    ) -> None:
        self.node = node
        self.fake = fake
        self.source = source
        self.cls = cls
        # The real tensor, of inputs.
        self.obj: Any = None
        self.written: dict[str, Value] = {}
        self.is_a_gradient = False
        """True if it was made to be some tensor's ``.grad``, which has to fit where it is assigned."""
        # Nodes for dynamic sizes, each made once.
        self._sizes: dict[int, Value] = {}

    def python_type(self) -> type:
        return self.cls

    def truth(self, ctx: Tracer) -> bool:
        return bool(ctx.call_builtin(bool, [self], {}).constant())

    def attribute(self, ctx: Tracer, name: str) -> Value:
        if name in _METADATA:
            return ctx.literal(getattr(self.fake, name))
        if name == "shape":
            return self.shape(ctx)
        # Attributes that compute a view: an operation.
        if name in _VIEWS:
            return ctx.record(getattr, [self, ConstantValue(name)], {})
        if name == "grad":
            return self.gradient(ctx)
        if name in ("is_leaf", "grad_fn") and not has_known_history(self.fake):
            ctx.stop(Kind.TENSOR_ATTRIBUTE, f"`{name}` of a view without a history, of what has one since, is read")
        # Whether it has a history may differ from call to call.
        if name == "is_leaf" or (name == "grad_fn" and self.fake.grad_fn is None):
            self._rely_on_being_a_leaf_or_not(ctx)
            return boolean(self.fake.is_leaf) if name == "is_leaf" else NONE
        if name == "nbytes" and self.fake.layout is torch.strided:
            items = ctx.record("numel", [self], {}, method=True)
            return ctx.call_builtin(operator.mul, [items, ConstantValue(self.fake.itemsize)], {})
        if name == "__class__":
            return ctx.literal(self.cls)
        return self._method(ctx, name)

    def _rely_on_being_a_leaf_or_not(self, ctx: Tracer) -> None:
        """Guards which of the two it is: an input's history may differ from call to call where it wants gradients."""
        if self.source is not None and self.obj.requires_grad:  # all others are leaves
            ctx.guard(AttrSource(self.source, "is_leaf"), GuardKind.TRUE if self.obj.is_leaf else GuardKind.FALSE)

    def gradient(self, ctx: Tracer) -> Value:
        """``x.grad``: as assigned in this frame, or as it is found on the real tensor."""
        # Assigned in this frame, and not yet on the real tensor.
        if "grad" in self.written:
            return realize(ctx, self.written["grad"])
        # Made here: a gradient could only have come by a backward, which writes it.
        if self.source is None:
            if self.fake.requires_grad and not is_leaf(self.fake):
                ctx.stop(Kind.TENSOR_ATTRIBUTE, f"`grad` of {self.describe()}, which is no leaf, is read")
            return NONE
        self._rely_on_being_a_leaf_or_not(ctx)
        # Reading ``grad`` of what is no leaf warns, unless it keeps it: CPython does that.
        if not self.obj.is_leaf:
            if not self.obj.retains_grad:
                ctx.stop(Kind.TENSOR_ATTRIBUTE, f"`grad` of {self.describe()}, which is no leaf, is read")
            ctx.guard(AttrSource(self.source, "retains_grad"), GuardKind.TRUE)
        return ctx.wrap(self.obj.grad, AttrSource(self.source, "grad"))

    def shape(self, ctx: Tracer) -> Value:
        """Fixed sizes are constants; a dynamic size is one node of the graph, however often it is asked for."""
        sizes: list[Value] = []
        for dim, size in enumerate(self.fake.shape):
            if isinstance(size, int):
                sizes.append(ConstantValue(size))
                continue
            if dim not in self._sizes:
                self._sizes[dim] = ctx.record("size", [self, ConstantValue(dim)], {}, method=True)
            sizes.append(self._sizes[dim])
        return TupleValue(sizes, cls=torch.Size)

    def _method(self, ctx: Tracer, name: str) -> Value:
        """A method of the class, or what the program hung on the tensor."""
        member = getattr(self.cls, name, None)
        if member is None:
            return self._own_attribute(ctx, name)
        if callable(member):
            # Programs replace methods of ``torch.Tensor``: the one that is called is relied on.
            source = _path_of_method(name) if self.cls is torch.Tensor else _path_of_member(self.cls, name)
            if isinstance(member, FunctionType) and not trusted(member):  # the program's, in place of torch's
                return ctx.call_builtin(MethodType, [ctx.wrap(member, source), self], {})
            ctx.guard(source, GuardKind.IS, member)
            return TensorMethod(self, name)
        return ctx.stop(Kind.TENSOR_ATTRIBUTE, f"`{name}` of a tensor is read", "read it outside the compiled function")

    def _own_attribute(self, ctx: Tracer, name: str) -> Value:
        """An attribute that the program hung on the tensor object."""
        if name in self.written:
            return realize(ctx, self.written[name])
        if self.source is not None:
            held = vars(self.obj)
            if name in held:
                return ctx.wrap(held[name], AttrSource(self.source, name))
            ctx.guard(KeySource(DictSource(self.source), name), GuardKind.ABSENT)
        rely_on_no_member(ctx, self.cls.__mro__, name)
        return ctx.throw(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")

    def set_attribute(self, ctx: Tracer, name: str, value: Value | None) -> None:
        if name == "requires_grad" and isinstance(value, ConstantValue):
            ctx.call(self.attribute(ctx, "requires_grad_"), [boolean(value.value)])
            return
        # An effect: the real attribute is set when the frame leaves.
        if name == "grad" and value is not None and self.source is not None:
            held = realize(ctx, value)
            self._insist_that_it_fits(ctx, held)
            ctx.changed(self)
            self.written["grad"] = held
            if isinstance(held, TensorValue):
                held.is_a_gradient = True
            return
        if name == "data" and value is not None:
            ctx.call_builtin(SET_DATA, [self, value], {})
        if value is None or hasattr(self.cls, name):
            ctx.stop(Kind.TENSOR_ATTRIBUTE, f"the attribute `{name}` of a tensor is assigned")
        ctx.changed(self)
        self.written[name] = value

    def _insist_that_it_fits(self, ctx: Tracer, grad: Value) -> None:
        """Breaks the graph where torch refuses the gradient, as it looks at what is to be one."""
        if grad is self:
            ctx.stop(Kind.ERROR_IN_AN_OPERATION, f"{self.describe()} is assigned as its own gradient")
        try:
            # Tried on a twin, so that this fake keeps what it has.
            self.fake.detach().grad = None if is_none(grad) else grad.fake  # type: ignore[attr-defined]
        except (AttributeError, RuntimeError, TypeError) as error:
            ctx.stop(Kind.ERROR_IN_AN_OPERATION, f"a gradient is assigned that does not fit: {error}")

    def parts(self) -> Iterator[Value]:
        return iter(self.written.values())

    def elements(self, ctx: Tracer) -> list[Value]:
        if self.fake.dim() == 0:
            ctx.throw(TypeError, "iteration over a 0-d tensor")
        return ctx.record("unbind", [self, ConstantValue(0)], {}, method=True).elements(ctx)

    def describe(self) -> str:
        shape = tuple(self.fake.shape)
        name = f"`{self.source.expression()}`, " if self.source else ""
        return f"{name}a tensor of shape {shape}"


class TensorMethod(Value):
    """A method bound to a tensor."""

    def __init__(self, owner: TensorValue, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(getattr(self.owner.fake, self.name))

    def call(self, ctx: Tracer, args: Any, kwargs: Any) -> Value:
        return ctx.call_builtin(getattr(self.owner.cls, self.name), [self.owner, *args], dict(kwargs))

    def attribute(self, ctx: Tracer, name: str) -> Value:
        found = getattr(self.owner.cls, self.name)
        if type(found) in BOUND:
            return attribute_of_bound(ctx, found, self.owner, name)
        own = {"__self__": self.owner, "__func__": found, "__class__": MethodType}
        if name in own:
            return self.owner if name == "__self__" else ctx.literal(own[name])
        try:
            return ctx.literal(getattr(found, name))
        except AttributeError as error:
            return ctx.throw(AttributeError, *error.args)

    def parts(self) -> Any:
        yield self.owner
