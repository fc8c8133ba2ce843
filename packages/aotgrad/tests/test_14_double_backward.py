"""Gradients of gradients: computed once more by operators that autograd can follow."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad

PARTITIONS = [aotgrad.default_partition, aotgrad.min_cut_partition]


def compiled(fn, **options):
    return aotgrad.function(fn, forward=aotgrad.run_eagerly, **options)


def three_orders(fn, *inputs, count=3):
    """First, second and third derivatives of a sum over `fn`."""
    torch.manual_seed(0)
    value, orders = fn(*inputs).sum(), []
    for _ in range(count):
        orders.append(torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True))
        value = sum((grad * grad).sum() for grad in orders[-1] if grad is not None)
    return orders


PROGRAMS = {
    "matrix product": lambda x, w: (x @ w).tanh() * x.sum(),
    "silu": lambda x, w: F.silu(x @ w),
    "mish": lambda x, w: F.mish(x) @ w,
    "gelu and norm": lambda x, w: F.gelu(F.layer_norm(x @ w, (4,))),
    "group norm": lambda x, w: F.group_norm(x @ w, 2),
    "batch norm": lambda x, w: F.batch_norm(x @ w, None, None, training=True).exp() * x,
    "softmax": lambda x, w: F.softmax(x @ w, -1).log(),
    "dropout": lambda x, w: F.dropout((x @ w).sin(), 0.4).exp() * x,
    "noise": lambda x, w: ((x * torch.randn_like(x)) @ w).sin(),
    "views": lambda x, w: F.relu(x @ w)[1:].t().exp(),
    "mutation inside": lambda x, w: x.clone().mul_(2).pow_(3) @ w,
    "checkpoint": lambda x, w: checkpoint(lambda x, w: ((x @ w).sin() * x.sum()).exp(), x, w, use_reentrant=False),
    "detached in a checkpoint": lambda x, w: checkpoint(
        lambda x, w: (x @ w).detach() * (x @ w).sin(), x, w, use_reentrant=False
    ),
    "max pool": lambda x, w: F.max_pool1d(x.sin() @ w, 2).exp(),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_three_orders(program, partition, dynamic):
    x, w = (torch.randn(6, 4, dtype=torch.double)[rows:].requires_grad_() for rows in (1, 2))
    try:
        eager = three_orders(program, x, w)
    except RuntimeError as error:  # from torch 2.14 on, of batch norms
        if "3rd+ order" not in str(error):
            raise
        eager = three_orders(program, x, w, count=2)
    ours = three_orders(compiled(program, partition=partition, dynamic=dynamic), x, w, count=len(eager))
    torch.testing.assert_close(ours, eager)


def penalty_step(module, critic, x):
    """A step of a critic whose gradient is part of its loss."""
    x = x.clone().requires_grad_()
    score = critic(x).sum()
    (grad,) = torch.autograd.grad(score, x, create_graph=True)
    (score + (grad.norm() - 1).square()).backward()
    return [p.grad for p in module.parameters()], [*module.buffers()]


def test_a_gradient_penalty():
    torch.manual_seed(0)
    modules = []
    for _ in range(2):
        torch.manual_seed(1)
        modules.append(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(16, 1)))
    ours, theirs = modules
    x = torch.randn(3, 1, 4, 4)
    got = penalty_step(ours, aotgrad.module(ours, forward=aotgrad.run_eagerly), x)
    torch.testing.assert_close(got, penalty_step(theirs, theirs, x))


def test_an_output_that_is_not_used():
    x = torch.randn(3, requires_grad=True)
    first, _ = compiled(lambda x: (x.exp(), x.sin()))(x)
    (grad,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(grad.sum(), x), (x.exp(),))


def test_an_input_that_was_written_to_since():
    x, w = torch.randn(3, requires_grad=True), torch.randn(3)
    y = compiled(lambda x, w: (x * 2 + w).sin())(x, w)
    w.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


def test_an_input_changed_under_autograd_is_refused_in_one_sentence():
    x = torch.ones(1 << 15, requires_grad=True)  # a smaller one is kept as it was
    value = x * 1
    y = compiled(lambda v: v.mul_(3).sin())(value)
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(grad, 3 * (3 * x).cos())
    with pytest.raises(RuntimeError, match="cannot be differentiated again: the function changes an input"):
        torch.autograd.grad(grad.sum(), x, allow_unused=True)


@pytest.mark.parametrize("change", ["v.add_(w)", "v.copy_(w)", "v[0] = w[1]", "v.add_(w.exp()); w = w * v.shape[0]"])
def test_an_input_changed_under_autograd_whose_old_value_nobody_needs(change):
    scope = {}
    exec(f"def f(v, w):\n    {change}\n    return w.sin()", scope)
    found = []
    for f in (scope["f"], compiled(scope["f"])):
        x, w = torch.ones(3, requires_grad=True), torch.full((3,), 0.5, requires_grad=True)
        value = x * 2
        y = f(value, w)
        grads = torch.autograd.grad((y * value).sum(), (x, w), create_graph=True, allow_unused=True)
        total = sum(grad.square().sum() for grad in grads if grad is not None)
        found.append((grads, torch.autograd.grad(total, (x, w), allow_unused=True)))
    torch.testing.assert_close(found[1], found[0])


def test_only_what_the_gradients_are_computed_from_must_be_what_it_was():
    """The order of what was sorted was saved."""

    def twice(f):
        y = torch.tensor([2.0, 1.0], requires_grad=True)
        result = f(y)
        y.detach().add_(1)
        torch.autograd.grad(result.square().sum(), y, create_graph=True)[0].square().sum().backward()
        return y.grad

    torch.testing.assert_close(twice(compiled(lambda y: y.sort()[0])), twice(lambda y: y.sort()[0]))


def test_a_result_that_needs_no_changed_input_is_differentiated_twice():
    def program(y, t):
        return F.relu(y, inplace=True), t * 2

    def twice(f):
        y, t = torch.ones((), requires_grad=True), torch.ones((), requires_grad=True)
        _, result = f(y + 0, t)
        torch.autograd.grad(result.square(), t, create_graph=True)[0].backward()
        return t.grad

    torch.testing.assert_close(twice(compiled(program)), twice(program))


def test_a_random_draw_that_was_not_saved_is_refused_in_one_sentence():
    x = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad(compiled(lambda x: (x + torch.randn(3)).sin())(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="forward did not save what"):
        grad.sum().backward()


def test_a_backward_that_keeps_nothing_frees_the_inputs():
    x = torch.ones(3, requires_grad=True)
    y = compiled(lambda v: v.exp() * v)(x)
    y.sum().backward()
    assert y.grad_fn.inputs is None


@pytest.mark.parametrize("kink", [torch.abs, torch.sgn, torch.ceil, lambda y: y.clamp(-1, 1), F.relu, F.hardtanh])
@pytest.mark.parametrize("moved", ["view", "reshape", "t", "squeeze", "expand", "index"])
def test_second_gradients_of_kinks_through_views(kink, moved):
    """Torch's formula gives zeros without memory, which the formula before it turned into a crash of the process."""
    moves = {
        "view": lambda y: y.view(3),
        "reshape": lambda y: y.reshape(3, 1),
        "t": lambda y: y.t(),
        "squeeze": lambda y: y.squeeze(0),
        "expand": lambda y: y.expand(2, 3),
        "index": lambda y: y[:, 1:],
    }

    def program(x, w):
        y = kink(moves[moved](torch.addmm(w[0], x, w.t())))
        return torch.autograd.grad(y.sum(), x, create_graph=True)[0]

    def gradients(f):
        x, w = torch.ones(1, 3, requires_grad=True), torch.linspace(-1, 2, 9).view(3, 3).requires_grad_()
        return torch.autograd.grad(f(x, w).square().sum(), (x, w), allow_unused=True, materialize_grads=True)

    torch.testing.assert_close(gradients(compiled(program)), gradients(program))


class _Squared(torch.autograd.Function):
    """Gives one tensor twice, and its gradient reads the tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x, x.exp()

    @staticmethod
    def backward(ctx, grad, of_exp):
        return 2 * ctx.saved_tensors[0] * grad + of_exp


SUMMED = {
    "two ways": lambda x: x * x.sum() + x.sin(),
    "with zeros": lambda x: x.ceil() + x * x,
    "a function of its own": lambda x: _Squared.apply(x)[0] * 2,
    "its other result": lambda x: _Squared.apply(x)[1] * 2,
    "written": lambda x: (y := x.clone(), y[:2].mul_(2), y * x)[-1],
    "complex": lambda x: torch.view_as_real(torch.complex(x, x * 2)).sum(1) + x.abs(),
}


@pytest.mark.parametrize("name", SUMMED)
def test_gradients_for_several_tangents_at_once(name):
    """A gradient that depends on none of them was written to with one that depends on all."""

    def gradients(f):
        x, batch = torch.tensor([1.0, -2.0, 0.5], requires_grad=True), torch.eye(3)
        (first,) = torch.autograd.grad(f(x), x, batch, is_grads_batched=True)
        (once,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        return first, torch.autograd.grad(once, x, batch, is_grads_batched=True)[0]

    torch.testing.assert_close(gradients(compiled(SUMMED[name])), gradients(SUMMED[name]))


def without_memory(gm, example_inputs):
    """A compiler whose code reads memory, as kernels do."""
    run = aotgrad.run_eagerly(gm, example_inputs)

    def kernel(inputs):
        for value in inputs:
            if isinstance(value, torch.Tensor):
                value.data_ptr()
        return run(inputs)

    return kernel


SEVERAL = {
    "sine": torch.sin,
    "stages": lambda x: (h := x.exp(), h.tanh()),
    "two results": lambda x: (x.exp(), x.sin()),
    "dropout": lambda x: torch.dropout(x, 0.5, True) * x,
    "in place": lambda x: x.mul(2).exp_(),
    "channels last": lambda x: x.to(memory_format=torch.channels_last).cos(),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", SEVERAL)
def test_several_tangents_at_once_have_no_memory(name, dynamic):
    x = torch.randn(1, 2, 3, 2, requires_grad=True)

    def gradients(fn):
        torch.manual_seed(0)
        y = fn(x)
        last = y[-1] if isinstance(y, tuple) else y
        batch = torch.eye(12).view(12, 1, 2, 3, 2)
        by_vmap = torch.func.vmap(lambda t: torch.autograd.grad(last, x, t, retain_graph=True)[0])(batch)
        at_once = torch.autograd.grad(last, x, batch, is_grads_batched=True, retain_graph=True)[0]
        return by_vmap, at_once, torch.autograd.grad(last.sum(), x)[0]  # compiled: not within a transform

    ours = aotgrad.function(SEVERAL[name], forward=without_memory, dynamic=dynamic)
    torch.testing.assert_close(gradients(ours), gradients(SEVERAL[name]))
