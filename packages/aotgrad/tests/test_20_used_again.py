"""Results used one after another, without ``retain_graph``: what eager allows is allowed, what it refuses refused."""

import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import aotgrad


def apart(x, w):
    return (x * w).sum(), (x + w).sum(), w.exp(), w.sin() * 2


def holding_nothing(x, w):
    return w.sum(), w + x, (w * 2).sum()


def together(x, w):
    hidden = w.exp()
    return hidden.cos(), hidden.sin()


def levels(x, w):
    hidden = w.exp()
    return hidden, hidden.sum(), hidden.sin(), w.cos()


def levels_that_hold_nothing(x, w):
    hidden = w + x
    return hidden, hidden.sum(), hidden * 2


def through_a_checkpoint(x, w):
    return checkpoint(torch.tanh, w, use_reentrant=True), w.sin()


def writing(x, w):
    x.mul_(w)
    return x, w.sin()


def nothing_in_common(x, w):
    return x.exp(), w.sin()


def of_a_view_written_to(x, w):
    y = w * 1
    y[:1].add_(1)
    return y.sum(), w.sum()


PROGRAMS = [apart, holding_nothing, together, levels, levels_that_hold_nothing, through_a_checkpoint, writing]
PROGRAMS += [nothing_in_common, of_a_view_written_to]


def in_order(call, order, graph_of_the_first):
    x, w = torch.full((3,), 2.0), torch.full((3,), 0.5, requires_grad=True)
    results, seen = call(x, w), []
    for place, number in enumerate(order):
        try:
            options = {"create_graph": True} if graph_of_the_first and not place else {}
            (gradient,) = torch.autograd.grad(results[number].sum(), w, allow_unused=True, **options)
            seen.append(gradient if gradient is None else gradient.tolist())
            results[number].sum().backward()
        except RuntimeError as error:
            seen.append(str(error)[:60])
        seen.append(w.grad if w.grad is None else w.grad.tolist())
    return seen


@pytest.mark.parametrize("graph", [False, True], ids=["plainly", "a graph of the first"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "varying"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_one_result_after_another(program, dynamic, graph):
    compiled = aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=dynamic)
    count = len(program(torch.ones(3), torch.ones(3, requires_grad=True)))
    for order in itertools.product(range(count), repeat=3):
        assert str(in_order(compiled, order, graph)) == str(in_order(program, order, graph)), order


def test_what_is_saved_goes_when_nobody_may_come_any_more():
    x, w = torch.full((3,), 2.0), torch.full((3,), 0.5, requires_grad=True)
    one, _, two, three = aotgrad.function(apart, forward=aotgrad.run_eagerly)(x, w)
    node = one.grad_fn
    for result in (one, two):
        result.sum().backward()
        assert node.holder is not None
    three.sum().backward()
    assert node.holder is None


HIDDEN = {
    "an argument": lambda x, h, w: [(h * 2).exp() * w],
    "a mask of one": lambda x, h, w: [w.masked_fill(x > 0.5, 1.0)],
    "a result": lambda x, h, w: [r := (h @ h.new_ones(3, 3)) * 2, (r * 3).exp()],
    "a view of a result": lambda x, h, w: [r := (h @ h.new_ones(3, 3)) * 2, (r.t() * 3).tanh()],
}


@pytest.mark.parametrize("program", HIDDEN.values(), ids=HIDDEN)
def test_what_eager_does_not_hold_may_be_changed_before_backward(program):
    found = []
    for f in (program, aotgrad.function(program, forward=aotgrad.run_eagerly, partition=aotgrad.min_cut_partition)):
        x, w = torch.full((3, 3), 0.7), torch.full((3, 3), 0.5, requires_grad=True)
        h = w * 2
        results = f(x, h, w)
        for changed in (x, h, *results[:-1]):
            changed.data.add_(0)  # so that versions stay
            with torch.no_grad():
                changed.mul_(1.5)
        results[-1].sum().backward()
        found.append(w.grad)
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize(
    "program", [lambda w: w + 1, lambda w: (w.clone(), w.exp()), lambda w: (h := w + 1, h.sum()), lambda w: w.fmod(2)]
)
def test_a_gradient_that_is_handed_on_lies_as_it_came(program):
    found = []
    for f in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        w = torch.ones(2, 3, requires_grad=True)
        result = f(w)
        first = result[0] if isinstance(result, tuple) else result
        (gradient,) = torch.autograd.grad(first.sum(), w)
        found.append((gradient.stride(), gradient.tolist()))
    assert found[1] == found[0]


class Apart(torch.autograd.Function):
    """Holds nothing."""

    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, gx, gy):
        return gx * 2, gy * 3


def test_what_one_result_comes_from_is_not_come_by_from_another():
    """Autograd would ask a history for gradients that is gone, or take one for used that waits."""
    program = lambda x, y: (x.sin(), y.neg())
    x = torch.ones(3, requires_grad=True)
    for call in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        y = x * 2
        for _ in range(2):  # what y has held is freed once
            first, second = call(x, y)
            torch.autograd.grad(first.sum(), x, retain_graph=True)
            first.sum().backward(inputs=[x])
            if y.grad_fn is not None:
                torch.autograd.grad(second.sum(), x, retain_graph=True)
    first, second = call(x, w := torch.ones(3, requires_grad=True))
    first.sum().backward(inputs=[w])  # comes to nothing, and frees nothing
    first.sum().backward()


def test_what_holds_nothing_is_differentiated_after_a_backward():
    call = aotgrad.function(lambda w: Apart.apply(w, w)[0], forward=aotgrad.run_eagerly)
    w = torch.ones(3, requires_grad=True)
    result = call(w)
    result.sum().backward()
    (gradient,) = torch.autograd.grad(result.square().sum(), w, create_graph=True)
    assert gradient.tolist() == [8.0] * 3


def test_a_function_whose_backward_the_program_has_run():
    def program(w):
        results = Apart.apply(w, w)
        return torch.autograd.grad(results[0].sum(), w)[0], results[0]

    w = torch.ones(3, requires_grad=True)
    gradient, result = aotgrad.function(program, forward=aotgrad.run_eagerly)(w)
    result.sum().backward()
    assert gradient.tolist() == w.grad.tolist() == [2.0] * 3


def test_a_result_whose_function_gives_no_gradient_for_it_is_followed():
    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return y * 3

        @staticmethod
        def backward(ctx, g):
            return None, g

    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    results = aotgrad.function(lambda x, y, w: (Silent.apply(x, y), w.sin()), forward=aotgrad.run_eagerly)(
        x, y, torch.ones(3, requires_grad=True)
    )
    assert [result.requires_grad for result in results] == [True, True]


def test_what_backward_changes_is_refused():
    """Statistics that a checkpoint takes once more."""
    norm = torch.nn.BatchNorm1d(3)
    call = aotgrad.module(norm, forward=aotgrad.run_eagerly)
    call(torch.randn(4, 3)).sum().backward()
    within = torch.nn.Sequential(norm)
    within.forward = lambda x: checkpoint(norm, x, use_reentrant=False)
    with pytest.raises(aotgrad.Unsupported, match="backward changes an input"):
        aotgrad.module(within, forward=aotgrad.run_eagerly)(torch.randn(4, 3))


def test_a_parameter_that_is_only_written_to_is_not_come_by():
    def program(w, bias):
        with torch.no_grad():
            bias.fill_(0)
        return w.sin()

    seen, (w, bias) = [], (torch.ones(3, requires_grad=True) for _ in range(2))
    bias.register_hook(seen.append)
    aotgrad.function(program, forward=aotgrad.run_eagerly)(w, bias).sum().backward()
    assert not seen
    assert bias.grad is None
    assert bias._version == 1


def test_a_checkpoint_within_which_a_result_is_used_up_runs_once():
    w, seen = torch.rand(3, requires_grad=True), []
    result, _ = aotgrad.function(together, forward=aotgrad.run_eagerly)(torch.ones(3), w)
    result.sum().backward()

    def region(_):
        seen.append(1)
        result.sum().backward()

    with pytest.raises(RuntimeError, match="second time"):
        checkpoint(region, w, use_reentrant=False)
    assert seen == [1]
