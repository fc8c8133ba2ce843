"""FX graphs written as text, read with sizes and dtypes, and printed again with what a pass says of each node."""

import ast

import torch
from torch.fx import Graph, GraphModule, Proxy
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.proxy import GraphAppendingTracer


class _Dtype:
    """``f32[4, 8]`` is a tensor of that dtype and size."""

    def __init__(self, dtype):
        self.dtype = dtype

    def __getitem__(self, sizes):
        return torch.ones(sizes, dtype=self.dtype)


DTYPES = {
    "f32": _Dtype(torch.float32),
    "bf16": _Dtype(torch.bfloat16),
    "i64": _Dtype(torch.int64),
    "b8": _Dtype(torch.bool),
}


def graph_of(text):
    """The graph of a function of one call per line; its nodes are named as in the text.  And inputs for it."""
    definition = ast.parse(text).body[0]
    graph, inputs = Graph(), []
    tracer = GraphAppendingTracer(graph)
    values = {"aten": torch.ops.aten, "torch": torch}
    for argument in definition.args.args:
        inputs.append(eval(ast.unparse(argument.annotation), dict(DTYPES)))
        values[argument.arg] = Proxy(graph.placeholder(argument.arg), tracer)
    *calls, last = definition.body
    for call in calls:
        name = call.targets[0].id
        values[name] = eval(ast.unparse(call.value), values)
        values[name].node._rename(name)
    results = eval(ast.unparse(last.value), values)
    graph.output(tracer.create_arg(results))
    gm = GraphModule(torch.nn.Module(), graph, "graph")
    FakeTensorProp(gm).propagate(*inputs)
    return gm, inputs


def listed(gm, notes=None):
    """One line per call, with a note behind those that have one."""
    lines = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            continue
        args = ", ".join([*map(str, node.args), *(f"{name}={value}" for name, value in node.kwargs.items())])
        line = f"return {node.args[0]}" if node.op == "output" else f"{node.name} = {_name(node.target)}({args})"
        lines.append(line + (f"  # {notes[node]}" if notes and node in notes else ""))
    return "\n".join(lines) + "\n"


def _name(target):
    return str(target) if isinstance(target, torch._ops.OpOverload) else target.__name__
