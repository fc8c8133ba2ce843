"""Graphs that cannot be recorded are known by their operators before anything runs."""

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from cudagraphs import CannotRecord, Refusal, capture, check_graph
from cudagraphs.eligible import written_inputs


def on_meta(*shape):
    return torch.ones(shape, device="meta")


def test_a_graph_of_device_operators_is_eligible():
    check_graph(make_fx(lambda x: (x + 1).relu())(on_meta(3)))


def test_an_operator_whose_size_depends_on_the_data():
    with pytest.raises(CannotRecord, match="nonzero") as caught:
        check_graph(make_fx(lambda x: x.nonzero())(torch.ones(3)))
    assert caught.value.reason is Refusal.DYNAMIC_SHAPE


def test_an_operator_on_the_cpu_is_named_with_its_line():
    graph_module = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    (sine,) = [node for node in graph_module.graph.nodes if node.op == "call_function"]
    sine.meta["val"] = torch.ones(3)
    sine.stack_trace = '  File "model.py", line 7, in forward\n    return torch.sin(x)\n'
    with pytest.raises(CannotRecord, match="sin") as caught:
        check_graph(graph_module)
    assert (caught.value.reason, caught.value.where) == (Refusal.CPU_OPERATOR, 'File "model.py", line 7, in forward')


def test_a_number_in_a_tensor_is_no_cpu_operator():
    graph_module = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    for node in graph_module.graph.nodes:
        node.meta["val"] = torch.tensor(1.0)
    check_graph(graph_module)


def test_a_number_that_the_graph_writes_would_stay_as_it_is_in_replays():
    """An optimizer's counter of steps."""
    graph_module = make_fx(lambda step: torch.ops.aten.copy_.default(step, step + 1))(torch.tensor(1.0))
    with pytest.raises(CannotRecord, match="writes to the CPU's memory") as caught:
        check_graph(graph_module)
    assert caught.value.reason is Refusal.CPU_OPERATOR


def test_an_ineligible_graph_is_refused_when_captured_and_still_runs():
    graph_module = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    for node in graph_module.graph.nodes:
        node.meta["val"] = torch.ones(3)
    captured = capture(graph_module, [torch.ones(3)])
    assert captured.refusal.reason is Refusal.CPU_OPERATOR
    assert torch.equal(captured(torch.ones(3)), torch.sin(torch.ones(3)))


def test_the_inputs_that_a_graph_writes_to():
    graph = fx.Graph()
    a, b, c, d = (graph.placeholder(name) for name in "abcd")
    graph.call_function(torch.ops.aten.copy_.default, (b, a))
    graph.call_function(
        torch.ops.aten._foreach_add_.Scalar, ([c, a.graph.call_function(torch.ops.aten.neg.default, (a,))], 1)
    )
    graph.call_function(torch.ops.aten.add.out, (a, a), {"out": d})
    graph.output((a,))
    assert written_inputs(fx.GraphModule({}, graph)) == {1, 2, 3}
