"""The shape of what comes out: one inference graph, or a forward and a backward."""

import pytest
import torch
from torch.nn import functional as F

import aotgrad


def targets(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


def test_without_gradients_there_is_one_graph(graphs_of):
    (graph,) = graphs_of(lambda x: x.sin() + 1, torch.randn(3))
    assert targets(graph) == ["aten.sin.default", "aten.add.Tensor"]


def test_with_gradients_there_are_two(graphs_of):
    forward, backward = graphs_of(lambda x: x.sin(), torch.randn(3, requires_grad=True))
    assert targets(forward) == ["aten.sin.default"]
    assert targets(backward) == ["aten.cos.default", "aten.mul.Tensor"]


def test_forward_returns_what_backward_reads(graphs_of):
    forward, backward = graphs_of(lambda x: x.exp().exp(), torch.randn(3, requires_grad=True))
    returned = [node.name for node in forward.output_node().args[0]]
    assert returned == ["exp_1", "exp", "exp_1"] or returned == ["exp_1", "exp_1", "exp"]
    assert [node.target for node in backward.find_nodes(op="placeholder")][-1] == "tangent_0"


def test_no_grad_mode_takes_the_inference_compiler():
    asked = []

    def compiler(name):
        return lambda gm, inputs: asked.append(name) or aotgrad.run_eagerly(gm, inputs)

    double = aotgrad.function(
        lambda x: x * 2, forward=compiler("forward"), backward=compiler("backward"), inference=compiler("inference")
    )
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        double(x)
    double(x)
    double(x).sum().backward()
    assert asked == ["inference", "forward", "backward"]


def test_a_torch_level_graph_is_compiled_with_parameters_as_inputs():
    gm = torch.fx.symbolic_trace(lambda x, weight: F.linear(x, weight).relu())
    x, weight = torch.randn(2, 3), torch.randn(4, 3, requires_grad=True)
    (result,) = aotgrad.compile(gm, [x, weight], forward=aotgrad.run_eagerly)(x, weight)
    torch.testing.assert_close(result, F.linear(x, weight).relu())
    result.sum().backward()
    assert weight.grad.shape == weight.shape


def test_the_older_spelling():
    fn = aotgrad.aot_function(lambda x: x.cos(), aotgrad.run_eagerly, aotgrad.run_eagerly)
    torch.testing.assert_close(fn(torch.ones(3)), torch.ones(3).cos())
    module = torch.nn.Linear(3, 2)
    torch.testing.assert_close(aotgrad.aot_module(module, aotgrad.run_eagerly)(torch.ones(3)), module(torch.ones(3)))


def test_nests_of_arguments_and_results(same_as_eager):
    same_as_eager(lambda d, k: {"sum": [d["a"] + d["b"]], "k": k}, {"a": torch.ones(2), "b": torch.ones(2)}, 3)


def test_each_kind_of_call_is_compiled_once():
    compiled = []
    fn = aotgrad.function(lambda x: x + 1, forward=lambda gm, i: compiled.append(gm) or aotgrad.run_eagerly(gm, i))
    for size in (2, 3, 2, 3):
        fn(torch.ones(size))
    assert len(compiled) == 2


def test_a_constant_argument_is_checked_at_every_call():
    gm = torch.fx.symbolic_trace(lambda x, n: x * n)
    double = aotgrad.compile(gm, [torch.ones(2), 2], forward=aotgrad.run_eagerly)
    with pytest.raises(aotgrad.InputChanged, match="argument 1 was 2 when compiled and is 3"):
        double(torch.ones(2), 3)


def test_plain_tensors_become_fakes_without_torchs_slow_way(monkeypatch):
    """`from_tensor` imports seconds' worth of torch: neither inputs nor constants of a static graph need it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(FakeTensorMode, "from_tensor", None)
    table, weight = torch.arange(3.0), torch.nn.Parameter(torch.ones(3), requires_grad=False)
    fn = aotgrad.function(lambda x: x * table + weight, forward=aotgrad.run_eagerly)
    torch.testing.assert_close(fn(torch.ones(3)), torch.arange(3.0) + 1)


def test_an_operator_that_gives_a_list_beside_a_tensor(same_as_eager):
    def unscale(a, b, scale):
        gradients, found = [a * 1, b * 1], torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)
        return *gradients, found

    same_as_eager(unscale, torch.ones(3), torch.tensor([1.0, torch.inf]), torch.tensor(0.5))


def test_a_constant_of_the_graph_is_not_added_to():
    fn = aotgrad.function(lambda x: torch.tensor([3.0, 1.0]) + x, forward=aotgrad.run_eagerly)
    for _ in range(3):
        torch.testing.assert_close(fn(torch.ones(1)), torch.tensor([4.0, 2.0]))
