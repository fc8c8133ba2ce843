"""What is saved between forward and backward, and what is computed again."""

import functools

import networkx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad
from aotgrad.partitioning.maxflow import FlowNetwork
from aotgrad.roles import Gradient, Primal, Result, Saved, Tangent, UpdatedInput


@pytest.fixture
def pairs():
    """`make(partition)` is a partitioner that remembers the pairs it made in `make.found`."""

    def make(partition):
        def remember(joint):
            make.found.append(partition(joint))
            return make.found[-1]

        return remember

    make.found = []
    return make


def saved_bytes(pairs, partition, module, *inputs):
    compiled = aotgrad.module(module, forward=aotgrad.run_eagerly, partition=pairs(partition))
    compiled(*inputs).sum().backward()
    return pairs.found[-1].saved_bytes


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(32, 128), nn.Linear(128, 32), nn.LayerNorm(32)

    def forward(self, x):
        return x + self.second(F.gelu(self.first(self.norm(x)).square() + 1).tanh())


def test_min_cut_saves_less(pairs):
    module, x = nn.Sequential(Block(), Block()), torch.randn(64, 32)
    default = saved_bytes(pairs, aotgrad.default_partition, module, x)
    assert saved_bytes(pairs, aotgrad.min_cut_partition, module, x) < 0.6 * default


def test_min_cut_computes_the_same(same_as_eager):
    def program(x, w):
        y = F.gelu(x @ w).tanh().exp()
        return F.dropout(y, 0.3).softmax(-1) * y.sigmoid()

    w = torch.randn(6, 6, requires_grad=True)
    same_as_eager(program, torch.randn(4, 6, requires_grad=True), w, partition=aotgrad.min_cut_partition)


def test_a_chain_of_cheap_operators_saves_its_input_alone(pairs):
    x = torch.randn(100, requires_grad=True)
    fn = aotgrad.function(
        lambda x: x.sin().exp().tanh().sigmoid(),
        forward=aotgrad.run_eagerly,
        partition=pairs(aotgrad.min_cut_partition),
    )
    fn(x)
    assert pairs.found[0].saved_bytes == 0


def test_random_operators_and_matrix_products_never_run_twice(graphs_of):
    def program(x, w):
        return (F.dropout(x @ w, 0.5).sin().exp() @ w).cos()

    inputs = torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    forward, backward = graphs_of(program, *inputs, partition=aotgrad.min_cut_partition)

    def count(graph, op):
        return sum(node.target is op for node in graph.nodes)

    assert count(forward, torch.ops.aten.mm.default) == 2
    assert count(backward, torch.ops.aten.mm.default) == 4
    assert not any("bernoulli" in str(node.target) for node in backward.nodes)


def test_checkpoint_is_honoured(pairs, same_as_eager):
    program = lambda x: checkpoint(lambda x: x.sin().exp().tanh(), x * 2, use_reentrant=False)
    x = torch.randn(100, requires_grad=True)
    same_as_eager(program, x)
    aotgrad.function(program, forward=aotgrad.run_eagerly, partition=pairs(aotgrad.default_partition))(x)
    assert pairs.found[0].saved_bytes == 400


class Region(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.dropout = nn.Linear(8, 8), nn.Dropout(0.4)

    def forward(self, x):
        return self.dropout(self.linear(x).sin())


class Checkpointed(nn.Sequential):
    """Two regions under checkpoints, as `call(run, regions, x)` says."""

    def __init__(self, call, **options):
        super().__init__(Region(), Region())
        self.run, self.call = functools.partial(checkpoint, **options), call

    def forward(self, x):
        return self.call(self.run, self, x)


REGIONS = {
    "one": lambda run, m, x: run(m[0], x),
    "one after another": lambda run, m, x: run(m[1], F.dropout(run(m[0], x), 0.2)),
    "nested": lambda run, m, x: run(lambda x: m[1](run(m[0], x)).exp(), x),
    "native dropout": lambda run, m, x: run(lambda x: torch.native_dropout(x.sin(), 0.3, True)[0] * x, x),
    "other draws": lambda run, m, x: run(
        lambda x: x * torch.rand_like(x) * x.sigmoid().bernoulli() + torch.randn(8), x
    ),
    "attention": lambda run, m, x: run(
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], None, 0.3), x
    ),
}


@pytest.mark.parametrize("preserve", [True, False], ids=["replayed", "drawn anew"])
@pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])
@pytest.mark.parametrize("partition", [aotgrad.default_partition, aotgrad.min_cut_partition])
@pytest.mark.parametrize("call", REGIONS.values(), ids=REGIONS.keys())
def test_a_checkpoint_around_random_draws(call, partition, reentrant, preserve):
    module = Checkpointed(call, use_reentrant=reentrant, preserve_rng_state=preserve)
    compiled = aotgrad.module(module, forward=aotgrad.run_eagerly, partition=partition)

    def step(call, x):
        torch.manual_seed(0)
        y = call(x)
        y.sum().backward()
        state = [(p.grad, setattr(p, "grad", None))[0] for p in module.parameters()]
        return y.detach(), x.grad, state, torch.rand(2)

    x = torch.randn(5, 8)
    for _ in range(2):
        ours = step(compiled, x.clone().requires_grad_())
        torch.testing.assert_close(ours, step(module, x.clone().requires_grad_()))


VIEWS = {
    "one": lambda x: x.sin()[None][0],
    "transposed": lambda x: x.sin().t(),
    "two of one tensor": lambda x: (y := x.sin(), y.t()),
    "a view and its copy": lambda x: (x.sin().t(), x.cos()),
}


@pytest.mark.parametrize("region", VIEWS.values(), ids=VIEWS.keys())
def test_a_reentrant_checkpoint_that_returns_views(region):
    program = lambda x: checkpoint(region, x, use_reentrant=True)
    found, base = [], torch.randn(3, 4)
    for call in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        x = base.clone().requires_grad_()
        results = torch.utils._pytree.tree_leaves(call(x))
        sum((result * i).sum() for i, result in enumerate(results, 1)).backward()
        found.append((results, x.grad))
    torch.testing.assert_close(*found)


def test_a_checkpoint_around_dropout_keeps_the_mask_alone(graphs_of):
    program = lambda x: checkpoint(
        lambda x: torch.native_dropout(x.sin().exp(), 0.5, True)[0].cos(), x, use_reentrant=False
    )
    forward, _ = graphs_of(program, torch.randn(9, requires_grad=True))
    _, *saved = forward.output_node().args[0]
    assert sorted(node.meta["val"].dtype.itemsize for node in saved) == [1, 4]


def test_tracing_leaves_the_generator_as_it_was():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    aotgrad.function(lambda x: x.sin(), forward=aotgrad.run_eagerly)(torch.ones(2))
    torch.testing.assert_close(torch.rand(2), expected)


def test_every_value_has_a_role(pairs):
    def program(x, w, buffer):
        buffer.add_(1)
        return x @ w

    fn = aotgrad.function(program, forward=aotgrad.run_eagerly, partition=pairs(aotgrad.default_partition))
    fn(torch.ones(2, 2), torch.ones(2, 2, requires_grad=True), torch.zeros(2))
    pair = pairs.found[0]
    assert pair.forward.inputs == (Primal(0, False), Primal(1, True), Primal(2, False, mutated=True))
    assert pair.forward.outputs == (UpdatedInput(2, False), Result((0,), True), Saved("primal_0"))
    assert pair.backward.inputs == (Saved("primal_0"), Tangent(1))
    assert pair.backward.outputs == (Gradient(1, (0,)),)


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(1, 9)), max_size=24)


@given(edges)
def test_the_cut_is_minimal(edges):
    ours, theirs = FlowNetwork(8), networkx.DiGraph()
    theirs.add_nodes_from(range(8))
    merged = {}
    for tail, head, capacity in edges:
        if tail != head:
            merged[tail, head] = merged.get((tail, head), 0) + capacity
    for (tail, head), capacity in merged.items():
        ours.add_edge(tail, head, capacity)
        theirs.add_edge(tail, head, capacity=capacity)
    behind = ours.sink_side(0, 7)
    value = sum(c for (tail, head), c in merged.items() if tail not in behind and head in behind)
    assert 7 in behind
    assert 0 not in behind
    assert value == networkx.maximum_flow_value(theirs, 0, 7)


def test_values_are_computed_again_right_before_their_use(graphs_of):
    def program(x, w, v):
        return (x @ w).sin().exp() @ v

    inputs = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
    _, backward = graphs_of(lambda *a: program(program(*a), *a[1:]), *inputs, partition=aotgrad.min_cut_partition)
    names = [str(node.target) for node in backward.nodes if node.op == "call_function"]
    exps = [index for index, name in enumerate(names) if name == "aten.exp.default"]
    assert len(exps) == 2
    assert names.index("aten.mm.default") < exps[-1]


def test_statistics_of_a_batch_are_not_computed_again(graphs_of):
    def program(x, w):
        return F.batch_norm(x @ w, None, None, training=True).relu() @ w

    x, w = torch.randn(16, 8), torch.randn(8, 8, requires_grad=True)
    _, backward = graphs_of(program, x, w, partition=aotgrad.min_cut_partition)
    assert not [node for node in backward.nodes if "batch_norm" in str(node.target) and "backward" not in node.name]


def test_what_is_saved_lies_as_the_caller_wants():
    """Strides in the joint graph are changed before it is cut, so both halves know of them."""
    seen = []

    def compiler(gm, example_inputs):
        seen.append([node.meta["val"].stride() for node in gm.graph.nodes if "exp" in node.name])
        return aotgrad.run_eagerly(gm, example_inputs)

    def lay_out(graph):
        (exp,) = graph.find_nodes(op="call_function", target=torch.ops.aten.exp.default)
        exp.meta["val"] = exp.meta["val"].new_empty_strided((4, 3), (1, 4))

    graph = torch.fx.symbolic_trace(lambda x: (x.exp().sin(),))
    x = torch.randn(4, 3, requires_grad=True)
    compiled = aotgrad.compile(graph, [x], forward=compiler, lay_out=lay_out)
    compiled(x)[0].sum().backward()
    assert seen == [[(1, 4)], [(1, 4)]]
