"""One call's graph as a module that is called as the function was: its arguments in, its result out.

Capture's graph takes every tensor it reads, one after another, and gives a tuple.  Here the tensors that came with the
arguments are found in them again, all others (parameters, buffers, tensors of modules and closures) are held, and the
result has the structure that the function gave it.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.fx.node import has_side_effect

import capture
from capture import inform
from compile_api.errors import CompileApiError
from compile_api.torch_versions import pytree

_PLAIN = (type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
_PARAMETER = inspect.Parameter
_STARS: Mapping[object, str] = {_PARAMETER.VAR_POSITIONAL: "*", _PARAMETER.VAR_KEYWORD: "**"}


class Exported(NamedTuple):
    """The graph of one call, and what it relies on."""

    graph_module: fx.GraphModule
    guards: tuple[str, ...]


class _Seen:
    """A backend that compiles nothing and remembers what its one graph took and gave."""

    def __init__(self) -> None:
        self.graphs: list[fx.GraphModule] = []
        self.took: tuple[Any, ...] = ()
        self.gave: Sequence[Any] = ()

    def backend(self, gm: fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        self.graphs.append(gm)

        def call(*inputs: Any) -> Any:
            self.took, self.gave = inputs, gm.forward(*inputs)
            return self.gave

        return capture.disable(call)


def exported(function: object, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Exported:
    """The graph of ``function(*args, **kwargs)``; raises where that is not one graph, or cannot be called alike."""
    seen, log = _Seen(), capture.Log()
    # A number has to be read after the graph, which is not part of it.
    options = capture.Options(nopython=True, capture_scalar_outputs=False)
    result = capture.optimize(seen.backend, options=options, log=log)(function)(*args, **kwargs)
    if len(seen.graphs) != 1:
        raise capture.not_one_graph(function, len(seen.graphs))
    record = next(record for record in log.records() if isinstance(record, capture.GraphRecord))
    # Changes of lists and attributes are made by bytecode around the graph, which is not exported.
    if record.changed:
        changed = ", ".join(record.changed)
        text = f"the function changes {changed}: that is no part of the exported graph, whose calls leave it as it is"
        inform(capture.CaptureWarning(text))
    return Exported(_Writer(function, seen).module(args, kwargs, result), record.guards)


class _Writer:
    """Writes the graph that stands around capture's own."""

    def __init__(self, function: object, seen: _Seen) -> None:
        self.function, self.seen = function, seen
        self.graph = fx.Graph()
        self.held: dict[str, Any] = {}
        self.nodes: dict[int, fx.Node] = {}
        """The nodes of the new graph that have a tensor, by the tensor's identity."""
        self.kept: list[torch.Tensor] = []
        """Tensors of arguments: those that pytree makes of an object would give their identities to others."""

    def module(self, args: tuple[object, ...], kwargs: Mapping[str, object], result: object) -> fx.GraphModule:
        self.take(args, kwargs)
        self.place()
        self.graph.output(self.structured(result))
        made = fx.GraphModule(self.held, self.graph, type(self.seen.graphs[0]).__name__)
        made.meta.update(self.seen.graphs[0].meta)
        return made

    def take(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """The arguments, as the function's own signature has them."""
        taken = list(_parameters(self.function, args, kwargs))
        given = [self.graph.placeholder(spelled, default_value=default) for spelled, default, _ in taken]
        values = tuple(value for *_, value in taken)
        if values:
            expected = self.hold("_expected", Expected(tuple(spelled for spelled, *_ in taken), values))
            # Checked before anything is computed: a call that differs raises, and has changed nothing.
            self.graph.call_function(expect, (expected, tuple(given)))
        for node, value in zip(given, values, strict=True):
            self.find(node, value)

    def find(self, node: fx.Node, value: object) -> None:
        """Notes where the tensors in an argument are to be read from."""
        if isinstance(value, torch.Tensor):
            self.nodes.setdefault(id(value), node)
            self.kept.append(value)
            return
        if type(value) not in (list, dict) and not isinstance(value, tuple) and pytree.tree_leaves(value) != [value]:
            # An object of a class that is registered with pytree has no items of its own: its leaves are read.
            value = pytree.tree_leaves(value)
            node = self.graph.call_function(pytree.tree_leaves, (node,))
        for key, inner in _items(value):
            if any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(inner)):
                self.find(self.graph.call_function(operator.getitem, (node, key)), inner)

    def place(self) -> None:
        """Capture's graph, with each of its inputs read from an argument or held by the module."""
        inner = self.seen.graphs[0].graph
        inputs = [node for node in inner.nodes if node.op == "placeholder"]
        own, copies = _state(self.function), {}
        for node, value in zip(inputs, self.seen.took, strict=True):
            if not isinstance(value, torch.Tensor):
                raise CompileApiError(f"export takes tensors into the graph, and {node.target} is the number {value}")
            if id(value) not in self.nodes:
                self.nodes[id(value)] = self.hold(own.get(id(value), str(node.target)), value)
            copies[node] = self.nodes[id(value)]
        outputs: Any = self.graph.graph_copy(inner, copies)
        for value, node in zip(self.seen.gave, outputs, strict=True):
            if isinstance(value, torch.Tensor):
                self.nodes[id(value)] = node
        # What is held beside the graph's parameters may be part of the result as well.
        self.own = own

    def structured(self, value: Any) -> Any:
        """The result, written down with the graph's nodes in the place of tensors."""
        if isinstance(value, torch.Tensor):
            return self.of_tensor(value)
        if isinstance(value, _PLAIN):
            return value
        if type(value) is dict and all(isinstance(key, _PLAIN) for key in value):
            return {key: self.structured(inner) for key, inner in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.structured, value))
        # Anything else goes through pytree, at whose leaves the graph's nodes are put in.
        leaves, spec = pytree.tree_flatten(value)
        if len(leaves) == 1 and leaves[0] is value:
            raise CompileApiError(
                f"export gives tensors, numbers and what pytree takes apart, and the function returns a "
                f"{type(value).__name__}: return its tensors, or register the class with pytree"
            )
        held = self.hold(f"_result_{len(self.held)}", spec)
        return self.graph.call_function(pytree.tree_unflatten, (list(map(self.structured, leaves)), held))

    def of_tensor(self, value: torch.Tensor) -> fx.Node:
        found = self.nodes.get(id(value))
        if found is None and id(value) in self.own:
            found = self.nodes[id(value)] = self.hold(self.own[id(value)], value)
        if found is None:
            raise CompileApiError(
                f"export: the function returns a tensor of sizes {tuple(value.shape)} that its graph does not compute "
                "and that is neither an argument nor a parameter or buffer: return what is computed from arguments"
            )
        return found

    def hold(self, name: str, value: object) -> fx.Node:
        self.held[name] = value
        return self.graph.create_node("get_attr", name)


def _parameters(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The parameters of the function: how the graph spells each, its default, and its value in this call."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    bound = inspect.signature(called).bind(*args, **kwargs)
    optional = False
    for name, parameter in bound.signature.parameters.items():
        stars = _STARS.get(parameter.kind, "")
        if stars:
            yield stars + name, inspect.Signature.empty, bound.arguments.get(name, () if stars == "*" else {})
            continue
        plain = parameter.default if isinstance(parameter.default, _PLAIN) else None
        # The graph prints as a function: behind a parameter with a default all others need one.
        optional = optional or parameter.default is not _PARAMETER.empty
        yield name, plain if optional else inspect.Signature.empty, bound.arguments.get(name, plain)


def _items(value: object) -> list[tuple[Any, Any]]:
    if type(value) is dict:
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list | tuple) else []


def _state(function: object) -> dict[int, str]:
    """The names of parameters and buffers of the module that is exported, or whose method is."""
    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return {}
    return {id(value): name for name, value in (*owner.named_buffers(), *owner.named_parameters())}


class Expected:
    """The properties that calls of an exported graph share with the one it was made from: all but the values of
    tensors."""

    def __init__(self, names: tuple[str, ...], values: tuple[object, ...]) -> None:
        self.names = names
        self.parts = [_parts(value) for value in values]
        self.first = _first(values)

    def check(self, given: Sequence[object]) -> None:
        for name, (spec, leaves), value in zip(self.names, self.parts, given, strict=True):
            now_spec, now = _parts(value)
            if now_spec != spec:
                raise CompileApiError(f"the graph was exported for another structure of {name}: {spec}, not {now_spec}")
            for was, leaf in zip(leaves, now, strict=True):
                if not _alike(was, leaf):
                    raise CompileApiError(f"the graph was exported for {was!r} in {name}, not {leaf!r}: export it anew")
        tensors = _tensors(given)
        if any(tensors[place] is not tensors[first] for place, first in enumerate(self.first)):
            raise CompileApiError(
                "the graph was exported for arguments that are one tensor, not several: export it anew"
            )


@dataclass(frozen=True, slots=True)
class _Tensor:
    """The dtype, sizes and device that an argument's tensor has to have; the graph may hold for no other ones."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    device: torch.device

    def __repr__(self) -> str:
        return f"a {str(self.dtype).removeprefix('torch.')} tensor of sizes {self.sizes} on {self.device}"


def _parts(value: object) -> tuple[Any, list[Any]]:
    leaves, spec = pytree.tree_flatten(value)
    return spec, [
        _Tensor(leaf.dtype, tuple(leaf.shape), leaf.device) if isinstance(leaf, torch.Tensor) else leaf
        for leaf in leaves
    ]


def _alike(was: object, now: object) -> bool:
    return type(was) is type(now) and (was is now or (isinstance(was, (*_PLAIN, _Tensor)) and bool(was == now)))


def _tensors(values: Sequence[object]) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tuple(values)) if isinstance(leaf, torch.Tensor)]


def _first(values: Sequence[object]) -> list[int]:
    """The place of each tensor's first occurrence among the arguments."""
    first: dict[int, int] = {}
    return [first.setdefault(id(tensor), place) for place, tensor in enumerate(_tensors(values))]


@has_side_effect
def expect(expected: Expected, given: Sequence[object]) -> None:
    """Raises where an exported graph is called with something that it was not made for."""
    expected.check(given)
