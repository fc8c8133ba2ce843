"""Eager beside compiled: rounding passes, mistakes are named."""

import re

import pytest
import torch
from torch import fx

import compile_api
from compile_api.accuracy import difference, first_off
from compile_api.subgraphs import up_to


class WrongAt(fx.Interpreter):
    """Runs a graph, with the results of one operator off by a factor."""

    def __init__(self, gm, name, factor):
        super().__init__(gm)
        self.name, self.factor = name, factor

    def run_node(self, n):
        value = super().run_node(n)
        return value * self.factor if n.op.startswith("call") and self.name in str(n.target) else value


def wrong_at(name, factor=1.01):
    return lambda gm, example_inputs: WrongAt(gm, name, factor).run


def function(x):
    y = torch.sin(x) + 1
    z = torch.nn.functional.gelu(y)
    return torch.cos(z) * 2


def test_the_first_operator_that_is_off_is_named_and_eager_takes_over():
    f = compile_api.compile(function, backend=wrong_at("gelu"), options={"check": True})
    x = torch.randn(10)
    with pytest.warns(compile_api.AccuracyWarning, match=r"first off at `gelu`.*test_accuracy.py:\d+ in function"):
        result = f(x)
    assert torch.equal(result, function(x))
    assert torch.equal(f(x), function(x))
    assert compile_api.report(f).inaccurate[0].error > 1e-3


def test_a_wrong_gradient_is_found():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    f = compile_api.compile(
        function, backend=lambda gm, _: lambda *xs: gm.forward(*map(Doubled.apply, xs)), options={"check": True}
    )
    with pytest.warns(compile_api.AccuracyWarning, match="first off at `sin`"):
        f(torch.randn(10, requires_grad=True))


def leaving_out(name):
    """A backend whose graphs do not ask for the gradient of one input, as if capture had not found it."""

    def backend(gm, example_inputs):
        (node,) = (node for node in gm.graph.nodes if node.target is torch.autograd.grad)
        outputs, asked, *rest = node.args
        place = next(index for index, leaf in enumerate(asked) if name in leaf.name)
        node.args = (outputs, [leaf for leaf in asked if name not in leaf.name], *rest)
        for chosen in list(node.users):
            if chosen.args[1] == place:
                chosen.replace_all_uses_with(node.args[1][0])
                gm.graph.erase_node(chosen)
            elif chosen.args[1] > place:
                chosen.args = (node, chosen.args[1] - 1)
        gm.recompile()
        return gm.forward

    return backend


def test_a_gradient_that_is_left_out_is_found_and_made(monkeypatch):
    monkeypatch.delenv("COMPILE_API_STRICT", raising=False)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))

    def step(x):
        out = net[0](x)
        out += 1
        net[1](out).square().sum().backward()

    f = compile_api.compile(step, backend=leaving_out("net_0_weight"), options={"check": True})
    with pytest.warns() as warned:
        f(torch.ones(2, 3))
    assert any(
        re.search(r"test_accuracy.py:\d+ in .*leaves out the gradients of .*net.*0.*weight", str(each.message))
        for each in warned
    )
    assert compile_api.report(f).inaccurate[0].missing
    found = [parameter.grad for parameter in net.parameters()]
    net.zero_grad()
    step(torch.ones(2, 3))
    assert all(map(torch.equal, found, (parameter.grad for parameter in net.parameters())))


def test_rounding_is_no_mistake():
    f = compile_api.compile(lambda x: (x @ x).softmax(-1).sum(), options={"check": True})
    for _ in range(4):
        f(torch.randn(64, 64, requires_grad=True)).backward()
    report = compile_api.report(f)
    assert (len(report.captured), report.inaccurate) == (1, ())


def test_checking_changes_neither_inputs_nor_random_numbers():
    def f(x):
        x.add_(1)
        return torch.nn.functional.dropout(x, 0.5)

    x, y = torch.zeros(100), torch.zeros(100)
    torch.manual_seed(3)
    expected = f(y)
    torch.manual_seed(3)
    compiled = compile_api.compile(f, backend="aot_eager", fullgraph=True, options={"check": True})
    assert torch.equal(compiled(x), expected)
    assert torch.equal(x, y)


def test_a_dtype_that_differs_is_off():
    gm = fx.symbolic_trace(lambda x: (x + 1,))
    assert difference(gm, lambda x: ((x + 1).double(),), [torch.ones(2)]).error == float("inf")
    assert difference(gm, lambda x: (x + 1,), [torch.ones(2)]) is None


def test_half_precision_is_judged_by_a_reference():
    gm = fx.symbolic_trace(lambda x: (x.exp().sum(-1),))
    x = torch.randn(8, 256, dtype=torch.bfloat16)
    better = lambda x: (x.float().exp().sum(-1).bfloat16(),)
    assert difference(gm, better, [x]) is None
    assert difference(gm, lambda x: (x.exp().sum(-1) * 1.2,), [x]) is not None


def test_the_search_halves():
    def chain(x):
        for _ in range(30):
            x = x + 0.01
        x = torch.tanh(x)
        for _ in range(33):
            x = x * 1.01
        return (x,)

    gm = fx.symbolic_trace(chain)
    compiled = []
    wrong = wrong_at("tanh", 1.5)
    counted = lambda part, inputs: compiled.append(part) or wrong(part, inputs)
    assert first_off(gm, counted, [torch.rand(4)]).target is torch.tanh
    assert len(compiled) <= 8


def test_a_graph_up_to_a_node_keeps_writes():
    def f(x):
        y = x.clone()
        y.add_(1)
        return (y * 2, x.sin())

    gm = fx.symbolic_trace(f)
    node = next(node for node in gm.graph.nodes if "mul" in str(node.target))
    assert torch.equal(up_to(gm, node)(torch.ones(2))[0], torch.full((2,), 4.0))


def test_one_wrong_number_among_many_is_found():
    def wrong(x):
        result = x.sin()
        result[1234] += 0.01
        return (result,)

    gm = fx.symbolic_trace(lambda x: (x.sin(),))
    assert difference(gm, wrong, [torch.randn(100_000)]).error == pytest.approx(0.01, rel=0.01)


def test_an_unlucky_sum_that_cancels_is_no_mistake():
    gm = fx.symbolic_trace(lambda x: (x.sum(-1),))
    x = torch.randn(512, 4096)
    x -= x.mean(-1, keepdim=True)
    backwards = lambda x: (x.flip(-1).cumsum(-1)[:, -1],)  # the same numbers added one after another
    assert difference(gm, backwards, [x.double()]) is None


def test_looking_for_a_mistake_leaves_the_report_as_it_is(monkeypatch):
    from compile_api import accuracy

    monkeypatch.setattr(accuracy, "difference", lambda gm, compiled, inputs: accuracy.Difference(1.0, 0.0))
    f = compile_api.compile(function, options={"check": True})
    with pytest.warns(compile_api.AccuracyWarning), torch.no_grad():
        f(torch.randn(10))
    assert len(compile_api.report(f).compiled) == 1
