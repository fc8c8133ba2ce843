"""Decompositions compute what the operators compute, forward and backward, and are functional."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import aotgrad
from aotgrad import decompositions

CORE = decompositions.core()
# In double: what is drawn here differs in every run, and a row of nearly equal numbers is rounded away by its norm.
DOUBLE = {"dtype": torch.float64}
X = torch.randn(4, 6, **DOUBLE, requires_grad=True)
IMAGE = torch.randn(2, 4, 3, 3, **DOUBLE, requires_grad=True)
TARGET = torch.tensor([1, 0, -100, 5])
WEIGHT = torch.rand(6, **DOUBLE)
MEAN, VARIANCE = torch.zeros(4, **DOUBLE), torch.ones(4, **DOUBLE)
C = torch.rand(4, **DOUBLE, requires_grad=True)

PROGRAMS = {
    "gelu": (lambda x: F.gelu(x), X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "silu": (lambda x: F.silu(x), X),
    "mish": (lambda x: F.mish(x), X),
    "gates": (lambda x: x.sigmoid() * x.tanh() + x.relu(), X),
    "hardswish": (lambda x: F.hardswish(x) + F.softplus(x) + F.leaky_relu(x) + F.elu(x), X),
    "softmax": (lambda x: F.softmax(x, 1), X),
    "log_softmax": (lambda x: F.log_softmax(x, 0), X),
    "layer_norm": (lambda x, w: F.layer_norm(x, (6,), w, w), X, WEIGHT.requires_grad_()),
    "layer_norm whole": (lambda x: F.layer_norm(x, (4, 6)), X),
    "batch_norm": (
        lambda x, w, m, v: F.batch_norm(x, m, v, w, w, training=True),
        IMAGE,
        C,
        MEAN,
        VARIANCE,
    ),
    "batch_norm eval": (lambda x, w, m, v: F.batch_norm(x, m, v, w, w), IMAGE, C, MEAN, VARIANCE),
    "batch_norm alone": (lambda x: F.batch_norm(x, None, None, training=True), IMAGE),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w, w), IMAGE, C),
    "cross_entropy": (lambda x, t, w: F.cross_entropy(x, t, w.detach()), X, TARGET, WEIGHT),
    "cross_entropy sum": (lambda x, t: F.cross_entropy(x, t, reduction="sum"), X, TARGET),
    "cross_entropy none": (lambda x, t: F.cross_entropy(x, t, reduction="none"), X, TARGET),
    "cross_entropy pixels": (lambda x: F.cross_entropy(x, torch.ones(2, 3, 3, dtype=torch.long)), IMAGE),
    "mse": (lambda x: F.mse_loss(x, x.detach() * 2), X),
    "losses": (lambda x: F.smooth_l1_loss(x, x.detach() + 1) + F.huber_loss(x, x.detach() * 3), X),
    "bce": (lambda x: F.binary_cross_entropy_with_logits(x, (x.detach() > 0).double()), X),
    "slices": (lambda x: x[1:, ::2].sum() + x[0].sum() + x.diagonal().sum(), X),
    "variance": (lambda x: x.var(0) + x.std(0), X),
    "lerp": (lambda x: torch.lerp(x, x * 2, 0.3) + torch.lerp(x, x * 2, x.detach().sigmoid()), X),
    "stack": (lambda x: torch.stack(x.unbind(0), 1) + torch.addcmul(x, x, x, value=2).sum(), X),
    "triangle": (lambda x: x.tril() + x.triu(1) + F.pad(x, (1, 1))[:, 1:-1], X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_core_computes_the_same(same_as_eager, name):
    program, *inputs = PROGRAMS[name]
    same_as_eager(program, *inputs, decompositions=CORE, times=1)


@pytest.mark.parametrize("name", ["gelu", "silu", "softmax", "log_softmax", "layer_norm", "mse", "group_norm"])
def test_half_precision_computes_in_float(name):
    program, x, *rest = PROGRAMS[name]
    x, rest = x.detach().bfloat16(), [r.detach().bfloat16() for r in rest]
    ours = aotgrad.function(program, forward=aotgrad.run_eagerly, decompositions=decompositions.own())(x, *rest)
    torch.testing.assert_close(ours, program(x, *rest), rtol=8e-3, atol=8e-3)


def test_nothing_of_the_families_is_left(graphs_of):
    module = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU(), nn.Softmax(-1))
    params = dict(module.named_parameters())
    graphs = graphs_of(lambda p, x: torch.func.functional_call(module, p, (x,)), params, X.float(), decompositions=CORE)
    left = [str(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function"]
    assert not any(word in target for target in left for word in ("layer_norm", "gelu", "softmax"))
    assert any("addmm" in target for target in left)


def test_without_a_table_operators_stay_whole(graphs_of):
    forward, _ = graphs_of(lambda x: F.gelu(x), X)
    assert [node.target for node in forward.nodes if node.op == "call_function"] == [torch.ops.aten.gelu.default]


def test_a_callers_own_table():
    table = {torch.ops.aten.sin.default: lambda x: x * 2}
    fn = aotgrad.function(torch.sin, forward=aotgrad.run_eagerly, decompositions=table)
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))


def test_a_decomposition_may_write_to_its_own_tensors(graphs_of):
    def rule(x):
        result = torch.empty_like(x).fill_(1)
        result[0] += x[0]
        return result

    (graph,) = graphs_of(torch.sin, torch.ones(2), decompositions={torch.ops.aten.sin.default: rule})
    assert not any(node.target._schema.is_mutable for node in graph.nodes if node.op == "call_function")
    fn = aotgrad.function(torch.sin, forward=aotgrad.run_eagerly, decompositions={torch.ops.aten.sin.default: rule})
    torch.testing.assert_close(fn(torch.ones(2)), torch.tensor([2.0, 1.0]))


def test_a_rule_that_ends_in_its_own_operator_leaves_it(graphs_of):
    table = {torch.ops.aten.sin.default: lambda x: torch.sin(x) * 1}
    (graph,) = graphs_of(torch.sin, torch.ones(2), decompositions=table)
    assert [str(node.target) for node in graph.nodes if node.op == "call_function"] == [
        "aten.sin.default",
        "aten.mul.Tensor",
    ]
