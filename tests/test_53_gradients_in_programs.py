"""Programs that look closely at gradients: whose they are, who is told of them, and what becomes of them later."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import compile_api

pytestmark = pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def leaf(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def layer(seed=0):
    torch.manual_seed(seed)
    return nn.Linear(3, 3)


@program
def written_in_place(run):
    a, b = layer(0), layer(1)

    def step(x):
        o, i = a(x), b(x)
        o += i
        loss = o.square().mean()
        loss.backward()
        return loss

    step = run(step)
    return [step(torch.ones(2, 3)) for _ in range(3)], [p.grad for p in (*a.parameters(), *b.parameters())]


@program
def one_gradient_for_two(run):
    a, b, w = leaf(3), leaf(3, seed=1), torch.arange(3.0)
    step = run(lambda: ((a + b) * w).sum().backward())
    step()
    a.grad.mul_(9)
    before = a.grad.clone(), b.grad.clone()
    step()
    return before, a.grad, b.grad


@program
def wanted_by_an_attribute_once_the_data_told_how_many(run):
    def step(x, mask):
        y = x + 2
        value = x.new(x[mask].size()).fill_(7)
        value.requires_grad = True
        y[mask] = value
        y.backward(torch.ones(5, 5))
        return x.grad, value.grad

    return run(step)(leaf(5, 5), torch.eye(5) > 0)


@program
def gradients_are_changed_later(run):
    model = layer()
    run(lambda x: model(x).square().sum().backward())(torch.ones(2, 3))
    for parameter in model.parameters():
        parameter.grad.add_(parameter, alpha=0.1)
    return [parameter.grad for parameter in model.parameters()]


@program
def a_hook_after_use(run):
    x = leaf(3)

    def step(x):
        h = x * 2
        y = (h * 3).sum()
        h.register_hook(lambda grad: grad * 10)
        y.backward()

    run(step)(x)
    return x.grad


@program
def a_hook_on_what_is_returned(run):
    x = leaf(3)
    h, y = run(lambda x: (lambda h: (h, (h * 3).sum()))(x * 2))(x)
    h.register_hook(lambda grad: grad * 10)
    y.backward()
    return x.grad


@program
def kept_before_it_is_changed_in_place(run):
    x = leaf(3)

    def step(x):
        h = x * 2
        h.retain_grad()
        h.mul_(3)
        h.sum().backward()
        return h, h.grad

    return run(step)(x), x.grad


@program
def with_respect_to_a_result(run):
    x = leaf(3)
    h, y = run(lambda x: (lambda h: (h, (h * 3).sum()))(x * 2))(x)
    return torch.autograd.grad(y, h)


class Told(torch.autograd.Function):
    seen: list[tuple[bool, bool]] = []

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        Told.seen.append((a is None, b is None))
        return a * 2 if b is None else b * 3 + 100


@program
def a_function_is_told_of_missing_gradients(run):
    Told.seen.clear()
    x = leaf(3)
    inside = run(lambda x: Told.apply(x)[0].sum().backward())
    outside = run(lambda x: Told.apply(x))
    for _ in range(2):
        inside(x)
        outside(x)[1].sum().backward()
    return x.grad, list(Told.seen)


@program
def hooks_on_saved_tensors(run):
    seen, x = [], leaf(3)

    def pack(tensor):
        seen.append(tuple(tensor.shape))
        return tensor

    def step(x):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            return (x.exp() * x).sum()

    run(step)(x).backward()
    return x.grad, seen


@program
def two_losses_and_a_kept_graph(run):
    x, w = leaf(3), leaf(3, seed=1)

    def step():
        h = x * w
        h.sum().backward(retain_graph=True)
        h.square().sum().backward()
        return h.detach()

    step = run(step)
    return [step() for _ in range(2)], x.grad, w.grad


@program
def tied_frozen_and_detached(run):
    tied, frozen = layer(), layer(1).requires_grad_(False)

    def step(x):
        y = tied(frozen(tied(x)))
        y.detach().mul_(2)
        (y.data.sum() * 0 + y.square().sum()).backward()

    run(step)(torch.ones(2, 3))
    return [p.grad for p in (*tied.parameters(), *frozen.parameters())]


@program
def views_of_views_and_masks(run):
    x, w = leaf(4, 3), leaf(2, seed=1)

    def step():
        h = x.clone()
        h.t()[1][1:3] = w
        h.view(-1)[::5].mul_(2)
        h[h > 1] = 0
        with torch.no_grad():
            h[0].add_(1)
        h.square().sum().backward()
        return h.detach()

    return run(step)(), x.grad, w.grad


@program
def higher_order_and_accumulated(run):
    x = leaf(3)

    def step():
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        first.square().sum().backward()

    step = run(step)
    step()
    kept = x.grad
    step()
    return x.grad, x.grad is kept


@program
def two_that_alternate(run):
    one, other = layer(), layer(1)
    optimizers = [torch.optim.Adam(m.parameters(), 0.1) for m in (one, other)]

    def step(x):
        for optimizer, sign in zip(optimizers, (1, -1), strict=True):
            optimizer.zero_grad()
            (sign * other(one(x)).square().mean()).backward()
            optimizer.step()

    step = run(step)
    for _ in range(3):
        step(torch.ones(2, 3))
    return [(p, p.grad) for p in (*one.parameters(), *other.parameters())], [
        o.state_dict()["state"] for o in optimizers
    ]


@program
def of_a_norm_of_one_row(run):
    norm = nn.BatchNorm1d(3).eval()
    run(lambda x: norm(x).sum().backward())(torch.ones(1, 3))
    norm.bias.grad.mul_(2)
    return [(p.grad, p.grad.stride()) for p in norm.parameters()]


BREAK = (
    wanted_by_an_attribute_once_the_data_told_how_many,
    a_hook_after_use,
    kept_before_it_is_changed_in_place,
    a_function_is_told_of_missing_gradients,
    hooks_on_saved_tensors,
)
"""What CPython has to do at some place: hooks, gradients that are kept, what a backward of the program's is told."""


def outcome(function, run):
    found = function(run)
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: (t.detach().clone(), t.requires_grad), found)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_gradients_are_those_of_eager(function, backend):
    expected = outcome(function, lambda step: step)
    compiled = []

    def run(step):
        compiled.append(compile_api.compile(step, backend=backend))
        return compiled[-1]

    torch.testing.assert_close(outcome(function, run), expected)
    reports = [compile_api.report(each) for each in compiled]
    assert bool(sum(len(report.frames) for report in reports)) == (function is not hooks_on_saved_tensors)
    assert any(report.breaks for report in reports) == (function in BREAK)


def test_what_is_passed_stays_the_programs(backend):
    """Eager hands it on to the leaf where nobody seems to hold it, a caller's variable included."""
    x, given = leaf(3), torch.ones(3)
    compile_api.compile(lambda given: x.backward(given), backend=backend, fullgraph=True)(given)
    x.grad.mul_(9)
    assert torch.equal(given, torch.ones(3))
    assert torch.equal(x.grad, torch.full((3,), 9.0))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "drawn",
    [F.dropout, lambda x: F.dropout(x, 0.2), lambda x: F.dropout(x * 2).sin()],
    ids=["half", "a fifth", "and more"],
)
def test_through_dropout_behind_a_result(drawn, dynamic, backend):
    """The mask is saved, and nobody reads it in the gradients from the result on."""

    def program(x):
        product = x * drawn(x)
        return (product**3).mean(), product

    def second(run):
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 20, dtype=torch.double).view(4, 5).requires_grad_()
        (first,) = torch.autograd.grad(run(x)[0] ** 2, x, create_graph=True)
        first.square().sum().backward()
        return first, x.grad

    torch.testing.assert_close(
        second(compile_api.compile(program, backend="aot_eager", dynamic=dynamic)), second(program)
    )
