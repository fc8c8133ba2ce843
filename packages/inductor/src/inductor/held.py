"""Tensors that a graph holds and writes to: the compiled graph takes them as inputs that its caller does not see.

What is held and only read is a constant of the graph.  What is written is none: tracing would write to it, and calls
would never do so again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import torch
from torch.fx import GraphModule, Node

from inductor import decompose
from inductor.calling import Boxed, attribute, check_list, span
from inductor.rewrites.redundant import writes_to_operands
from inductor.torch_versions import OpOverload, aten

_IN_PLACE = (
    operator.setitem, operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod,
    operator.ipow, operator.imatmul, operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift,
)  # fmt: skip
_WRITE_STATISTICS = ("batch_norm", "instance_norm", "embedding")


def as_inputs(gm: GraphModule, examples: Sequence[object]) -> tuple[GraphModule, tuple[torch.Tensor, ...]] | None:
    """The graph made ready, with the tensors that it holds and writes to as further inputs at the end, and these
    tensors; None where there are none."""
    if decompose.is_ready(gm) or not any(map(_may_write, gm.graph.nodes)):
        return None
    held = tuple({id(tensor): tensor for tensor in _held(gm)}.values())
    if not held:
        return None
    prepared = decompose.traced_with(gm, examples, held)
    places = prepared.graph.find_nodes(op="placeholder")[-len(held) :]
    copies = prepared.graph.find_nodes(op="call_function", target=aten.copy_.default)
    targets = {node.args[0] for node in copies}
    written = [tensor for node, tensor in zip(places, held, strict=True) if node in targets]
    if not written:
        return None
    for number, (node, tensor) in enumerate(zip(places, held, strict=True)):
        if node not in targets:
            _hold(prepared, node, f"held_{number}", tensor)
    prepared.recompile()
    return prepared, tuple(written)


def _hold(gm: GraphModule, node: Node, name: str, tensor: torch.Tensor) -> None:
    """Makes an input a tensor that the graph holds."""
    if node.users:
        if isinstance(tensor, torch.nn.Parameter):
            gm.register_parameter(name, tensor)
        else:
            gm.register_buffer(name, tensor, persistent=False)
        with gm.graph.inserting_before(node):
            found = gm.graph.get_attr(name)
        found.meta.update(node.meta)
        node.replace_all_uses_with(found)
    gm.graph.erase_node(node)


def with_held(name: str, call: Boxed, held: Sequence[torch.Tensor], count: int, eager: Boxed) -> Boxed:
    """``call`` for ``count`` inputs, with the tensors behind them; where an input shares memory with one of these, the
    graph runs operator by operator."""
    spans = [span(tensor) for tensor in held]

    def complete(inputs: list[object]) -> tuple[object, ...]:
        if type(inputs) is not list or len(inputs) != count:
            check_list(inputs, name, count)
        given = [span(each) for each in inputs if isinstance(each, torch.Tensor)]
        if any(max(one[0], other[0]) < min(one[1], other[1]) for one in given for other in spans):
            return eager(inputs)
        every = [*inputs, *held]
        if isinstance(inputs, list):
            inputs.clear()
        return call(every)

    return complete


def _held(gm: GraphModule) -> Iterator[torch.Tensor]:
    """The tensors that the graph reads by name, and those of the modules that it calls."""
    for node in gm.graph.nodes:
        if node.op == "get_attr" and isinstance(value := attribute(gm, str(node.target)), torch.Tensor):
            yield value
        elif node.op == "call_module":
            for module in gm.get_submodule(str(node.target)).modules():
                yield from _tensors_of(module)


def _tensors_of(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for values in (module._parameters, module._buffers, module.__dict__):
        yield from (value for value in values.values() if isinstance(value, torch.Tensor))


def _may_write(node: Node) -> bool:
    """True unless the call is known to write to none of its operands, nor to what its module holds."""
    if node.op == "call_method":
        return str(node.target).removesuffix("__").endswith("_") or node.target == "__setitem__"
    if node.op == "call_module":
        owner = node.graph.owning_module
        return owner is None or any(map(_keeps_state, owner.get_submodule(str(node.target)).modules()))
    if node.op != "call_function":
        return False
    target: object = node.target
    if isinstance(target, OpOverload):
        return target.namespace not in ("aten", "prims") or writes_to_operands(node)
    name, home = str(getattr(target, "__name__", "")), str(getattr(target, "__module__", "") or "")
    if target in _IN_PLACE or name.endswith("_") or any(part in name for part in _WRITE_STATISTICS):
        return True
    if node.kwargs.get("out") is not None or node.kwargs.get("inplace") or True in node.args:
        return True
    return not home.startswith(("torch", "_operator", "math", "builtins"))


def _keeps_state(module: torch.nn.Module) -> bool:
    """True for a module whose calls may write to what it holds: torch's own have only buffers for that."""
    if not type(module).__module__.startswith("torch.nn.") or getattr(module, "max_norm", None) is not None:
        return any(True for _ in _tensors_of(module))
    values = (*module._buffers.values(), *module.__dict__.values())
    return any(isinstance(value, torch.Tensor) for value in values)


__all__ = ["as_inputs", "with_held"]
