"""``torch.func``: what is transformed is evaluated on tensors as it sees them, and becomes a module within the graph.

Under ``vmap`` a function sees one sample; under the others, the whole.  What the transform makes of it is found out by
torch itself, on fake tensors.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import torch
import torch.func
from torch import fx

from capture.errors import UserRaised
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.builtin_rules.texts_of_objects import plain_data
from capture.evaluator.trial_runs import HINT
from capture.evaluator.world import World
from capture.operators.transforms import transformed
from capture.reasons import Kind
from capture.recording.graph import memory_of
from capture.torch_versions import pytree
from capture.values.base import Tracer, Value, reachable, realize
from capture.values.constant import NONE, ConstantValue, is_none
from capture.values.function import FunctionValue
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, SequenceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.transform import Body, ModuleOperand, PullbackValue, TransformValue, call_transform

_TRANSFORMS: dict[str, Callable[..., Any]] = {
    name: getattr(torch.func, name) for name in ("vmap", "grad", "grad_and_value", "jacrev", "jacfwd")
}
_MADE_BY: dict[CodeType, str] = {make(torch.sin).__code__: name for name, make in _TRANSFORMS.items()}
"""The wrappers that ``torch.func`` returns share a code object per transform: so functions made outside are known."""


def _transform(name: str) -> Callable[..., Value]:
    signature = inspect.signature(_TRANSFORMS[name])

    def make(ctx: Tracer, *args: Value, **kwargs: Value) -> Value:
        options: dict[str, Value] = dict(signature.bind(*args, **kwargs).arguments)
        function = options.pop("func")
        return TransformValue(name, function, {key: plain_data(ctx, value) for key, value in options.items()})

    return make


for _name, _make in _TRANSFORMS.items():
    rule(_make, kinds=(None,))(_transform(_name))


@rule(torch.func.hessian, kinds=(None,))
def hessian(ctx: Tracer, func: Value, argnums: Value = ConstantValue(0)) -> Value:  # noqa: B008 - a constant
    options = {"argnums": plain_data(ctx, argnums)}
    # As torch defines it.
    return TransformValue("jacfwd", TransformValue("jacrev", func, options), options)


@rule(torch.func.vjp, kinds=(None, None))
def vjp(ctx: World, func: Value, *primals: Value, has_aux: Value = NONE) -> Value:
    """The function that it returns computes what is needed of ``func`` a second time, in one node with the rest."""
    if not is_none(has_aux) and has_aux.truth(ctx):
        ctx.stop(Kind.FUNCTION_TRANSFORM, "`torch.func.vjp` has an auxiliary result", HINT)
    # The second evaluation would draw other numbers.
    draws = ctx.graph.mode.draws
    with ctx.repeatable([func, *primals]):
        # Recorded in the open, for the value; ``_body`` records it once more as a module, for the pullback.
        out = ctx.call(func, primals)
    if ctx.graph.mode.draws != draws:
        ctx.stop(Kind.FUNCTION_TRANSFORM, "`torch.func.vjp` of a function that draws random numbers", HINT)
    body = _body(ctx, TransformValue("vjp", func, {}), primals, {})
    pull = PullbackValue(func, primals, body, _surroundings(ctx), len(ctx.graph.mode.journal.order))
    ctx.note_origin(pull)
    return TupleValue([out, pull])


def _surroundings(ctx: Tracer) -> object:
    """The modes that decide how operations are done, besides their operands."""
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), tuple(ctx.effects.contexts)


@rule(torch.func.jvp, kinds=(None, None, None))
def jvp(ctx: World, func: Value, primals: Value, tangents: Value, **options: Value) -> Value:
    if not isinstance(primals, TupleValue):
        ctx.stop(Kind.FUNCTION_TRANSFORM, "`torch.func.jvp` is given primals that are no tuple", HINT)
    made = TransformValue("jvp", func, {name: plain_data(ctx, value) for name, value in options.items()})
    return _call(ctx, made, primals.items, {}, [primals, tangents])


@rule(call_transform, kinds=(TransformValue,))
def call(ctx: World, made: TransformValue, *args: Value, **kwargs: Value) -> Value:
    if isinstance(made, PullbackValue):
        return _pull(ctx, made, args, kwargs)
    return _call(ctx, made, args, kwargs, args)


def _pull(ctx: World, pull: PullbackValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    """The call of a pullback: one node with ``vjp``, as long as nothing has changed since that was called."""
    needed = [value.fake for value in (*pull.body.given, *reachable(pull.primals)) if isinstance(value, TensorValue)]
    # Memory written since ``vjp`` was called.
    written = set(ctx.graph.mode.journal.order[pull.written :])
    if not written.isdisjoint(map(memory_of, needed)):
        ctx.stop_before(pull, Kind.FUNCTION_TRANSFORM, "what `torch.func.vjp` needs again is written in between", HINT)
    if kwargs or pull.surroundings != _surroundings(ctx):
        text = "what `torch.func.vjp` returned is called with options, or in another mode than `vjp`"
        ctx.stop_before(pull, Kind.FUNCTION_TRANSFORM, text, HINT)
    return _node(ctx, pull, pull.body, [TupleValue(pull.primals), TupleValue(args)], {})


def transform_of(ctx: Tracer, function: FunctionValue) -> TransformValue | None:
    """The transform of a function that ``torch.func`` made outside of the captured code; None for other functions."""
    name = _MADE_BY.get(function.code)
    if name is None:
        return None
    cells = dict(zip(function.code.co_freevars, function.closure, strict=True))
    known = inspect.signature(_TRANSFORMS[name]).parameters.keys() & cells.keys()
    # Its closure holds the function and the options, by their parameters' names.
    contents = {key: realize(ctx, cells[key].content) for key in known}
    inner = contents.pop("func")
    return TransformValue(name, inner, {key: plain_data(ctx, value) for key, value in sorted(contents.items())})


def _call(
    ctx: World, made: TransformValue, args: Sequence[Value], kwargs: Mapping[str, Value], operands: Sequence[Value]
) -> Value:
    """One node that calls the transform with ``operands``; its function sees ``args`` and ``kwargs``."""
    return _node(ctx, made, _body(ctx, made, args, kwargs), operands, kwargs)


def _body(ctx: World, made: TransformValue, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Body:
    """Evaluates the function, as the transform calls it."""
    outer = [_tree(ctx, value) for value in args], {key: _tree(ctx, value) for key, value in kwargs.items()}
    dims = _dims(ctx, made, outer[0], outer[1])
    # What is recorded from here on is cut out of the graph and becomes the module.
    recorded = ctx.graph.mark()
    once_more = ctx.repeatable([made, *args]) if made.options.get("chunk_size") else contextlib.nullcontext()
    ctx.graph.operations += 1  # the step cannot be taken back
    inner = _Inner(ctx, made, dims)
    # Within one no truth of a tensor is decided or expected (``Machine``).
    ctx.graph.transforms += 1
    try:
        seen = [inner.see(value, number) for number, value in enumerate(args)]
        seen_by_name = {key: inner.see(value, None) for key, value in kwargs.items()}
        with once_more:
            returned = ctx.call(made.function, seen, seen_by_name)
    except UserRaised:  # unless torch refuses the arguments, which it looks at first
        ctx.graph.forget(recorded)
        ctx.stop(Kind.FUNCTION_TRANSFORM, "a function that is transformed raises", HINT)
    finally:
        ctx.graph.transforms -= 1
    results: list[TensorValue] = []
    arranged = _arranged(ctx, returned, results)
    module, given = ctx.graph.cut(recorded, inner.entries, [value.node for value in results])
    return Body(module, tuple(map(_value_of, given)), arranged)


def _node(
    ctx: World, made: TransformValue, body: Body, operands: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value:
    """Adds the node that calls a transform of a body."""
    # Of the arguments only tensors go into the node: the others are constants of the body.
    tree = TupleValue([_plain_containers(ctx, value) for value in operands])
    named = _dict({key: _plain_containers(ctx, value) for key, value in kwargs.items()})
    how = ConstantValue(made.name), ctx.literal(made.options)
    with ctx.graph.constants_allowed():
        operator = ModuleOperand(ctx.graph.attach(body.module), body.module)
        arranged, given = ctx.literal(body.arranged), TupleValue(body.given)
        return ctx.record(transformed, [operator, *how, tree, named, arranged, given], {})


def _value_of(node: fx.Node) -> Value:
    """The value of a node outside that a body uses."""
    found = node.meta["val"]
    return TensorValue(node, found) if isinstance(found, torch.Tensor) else SymbolicNumber(node, found)


class _Inner:
    """The arguments as the transformed function sees them; ``entries`` are the nodes of those that are tensors."""

    def __init__(self, ctx: World, made: TransformValue, dims: Iterator[int | None] | None) -> None:
        self.ctx = ctx
        self.dims = dims
        argnums = made.options.get("argnums", 0)
        self.differentiated = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        self.entries: list[object] = []

    def see(self, value: Value, number: int | None) -> Value:
        """The argument as the function sees it: a container with other tensors in it."""
        value = realize(self.ctx, value)
        if isinstance(value, TensorValue):
            return self._tensor(value, number)
        # One entry of ``dims`` for each leaf, in the order in which the tree is walked: every leaf takes one, tensors
        # or not.
        dim = None if self.dims is None or isinstance(value, (SequenceValue, DictValue)) else next(self.dims)
        if dim is not None:
            self.ctx.stop(Kind.FUNCTION_TRANSFORM, f"{value.describe()} has no dimension to map over", HINT)
        if isinstance(value, SequenceValue):
            items = [self.see(item, number) for item in value.items]
            return ListValue(items) if isinstance(value, ListValue) else TupleValue(items)
        if isinstance(value, DictValue):
            return _dict({key: self.see(item, number) for key, (_, item) in value.entries.items()})
        return value

    def _tensor(self, value: TensorValue, number: int | None) -> Value:
        """A tensor as the function sees it: one sample, a leaf to differentiate by, or the same tensor once more."""
        dim = None if self.dims is None else next(self.dims)
        if value.fake.is_inference() and self.differentiated:
            self.ctx.stop(Kind.FUNCTION_TRANSFORM, f"{value.describe()} was made in inference mode", HINT)
        with self.ctx.graph.mode:
            if dim is not None:
                # One sample.
                fake = value.fake.select(dim, 0)
            elif self.dims is None and number in self.differentiated and value.fake.is_floating_point():
                # As ``grad`` hands it over: a leaf of its own level.
                fake = value.fake.detach().requires_grad_()
            else:
                # An object of its own in any case: its node is the entry's, and the argument keeps the one it has.
                fake = value.fake.view_as(value.fake)
        node = self.ctx.graph.entry(value.node, fake)
        self.entries.append(node)
        made = self.ctx.tensors[id(fake)] = TensorValue(node, fake)
        return made


def _dims(
    ctx: World, made: TransformValue, args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[int | None] | None:
    """The dimension that is mapped over, for each leaf of the arguments; None where nothing is mapped."""
    if made.name != "vmap":
        return None
    leaves, spec = pytree.tree_flatten(tuple(args))
    dims = pytree._broadcast_to_and_flatten(made.options.get("in_dims", 0), spec)
    mapped = [] if dims is None else [pair for pair in zip(dims, leaves, strict=True) if pair[0] is not None]
    if dims is None or not all(_has_parts(leaf, dim) for dim, leaf in mapped):
        ctx.stop(Kind.FUNCTION_TRANSFORM, "`in_dims` of `torch.func.vmap` does not fit the arguments", HINT)
    return iter([*dims, *[None for _ in pytree.tree_leaves(dict(kwargs))]])  # whatever has a name is not mapped


def _has_parts(leaf: object, dim: object) -> bool:
    """True if there is a first part along a dimension, of which a fake can be made."""
    if not isinstance(leaf, torch.Tensor) or not isinstance(dim, int):
        return False
    return -leaf.dim() <= dim < leaf.dim() and leaf.shape[dim] > 0


def _tree(ctx: Tracer, value: Value) -> object:
    """The tree that torch sees, with fake tensors in it and None for whatever is no tensor."""
    value = realize(ctx, value)
    if isinstance(value, TensorValue):
        return value.fake
    if isinstance(value, SequenceValue) and value.cls in (tuple, list):
        return value.cls(_tree(ctx, item) for item in value.items)
    if isinstance(value, DictValue) and value.cls is dict and all(type(key) is str for key in value.entries):
        return {key: _tree(ctx, item) for key, (_, item) in value.entries.items()}
    if isinstance(value, (SequenceValue, DictValue)):
        ctx.stop(Kind.FUNCTION_TRANSFORM, f"a function that is transformed is given {value.describe()}", HINT)
    return None


def _plain_containers(ctx: Tracer, value: Value) -> Value:
    """The arguments as tuples, lists and dicts of tensors; other leaves are None."""
    value = realize(ctx, value)
    if isinstance(value, SequenceValue):
        items = [_plain_containers(ctx, item) for item in value.items]
        return ListValue(items) if isinstance(value, ListValue) else TupleValue(items)
    if isinstance(value, DictValue):
        return _dict({key: _plain_containers(ctx, item) for key, (_, item) in value.entries.items()})
    return value if isinstance(value, TensorValue) else NONE


def _dict(items: Mapping[str, Value]) -> DictValue:
    made = DictValue()
    made.entries = {key: (ConstantValue(key), item) for key, item in items.items()}
    return made


def _arranged(ctx: Tracer, returned: Value, results: list[TensorValue]) -> object:
    """The arrangement of what the function returned, with numbers for its tensors; those are added to ``results``."""
    returned = realize(ctx, returned)
    arrange = functools.partial(_arranged, ctx, results=results)
    if isinstance(returned, TensorValue):
        results.append(returned)
        return len(results) - 1
    if isinstance(returned, SequenceValue) and returned.cls in (tuple, list):
        return returned.cls(arrange(item) for item in returned.items)
    if isinstance(returned, DictValue) and returned.cls is dict:
        return {key: arrange(item) for key, (_, item) in returned.entries.items()}
    if not is_none(returned):
        ctx.stop(Kind.FUNCTION_TRANSFORM, f"a function that is transformed returns {returned.describe()}", HINT)
    return None
