"""Gradients of gradients go through what a compiled function returned: hooks and kept gradients see them so."""

import gc
import weakref

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad

PARTITIONS = [aotgrad.default_partition, aotgrad.min_cut_partition]


def compiled(fn, **options):
    return aotgrad.function(fn, forward=aotgrad.run_eagerly, **options)


def pair(first, second):
    def program(x):
        between = first(x)
        return between, second(between)

    return program


def three(x):
    first = x.exp()
    second = first.tanh()
    return first, second, second.exp() * first


def checkpointed(region):
    return lambda x: checkpoint(region, x, use_reentrant=False)


PROGRAMS = {
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "softmax": lambda x: x.softmax(0),
    "reciprocal": torch.reciprocal,
    "norm": lambda x: x.norm(),
    "logsumexp": lambda x: x.logsumexp(0),
    "relu": lambda x: F.relu(x * x),
    "input is read": torch.sin,
    "in place": lambda x: x.sin().exp_(),
    "parts": lambda x: x.exp().unbind(0),
    "values": lambda x: x.exp().topk(2)[0],
    "transposed": lambda x: x.view(2, 2).exp().t(),
    "view of what is not returned": lambda x: x.exp().view(2, 2),
    "copy": lambda x: x.exp().clone(),
    "twice the same": lambda x: (x.exp(),) * 2,
    "equal work": lambda x: (x.exp(), x.exp() * 2),
    "equal results": lambda x: (x.exp(), x.exp()),
    "two of one input": lambda x: (x.exp(), x.tanh()),
    "detached": lambda x: (x.exp(), x.exp().detach() * x.sin()),
    "result and its sine": pair(torch.exp, torch.sin),
    "not read itself": pair(torch.exp, lambda y: (y + 1).sin()),
    "read and read again": pair(lambda x: x * 2, lambda y: y.sin().exp()),
    "result and a view": pair(torch.exp, lambda y: y.view(2, 2)),
    "of a view": pair(lambda x: x.exp().view(2, 2), torch.sin),
    "three": three,
    "checkpoint": checkpointed(torch.exp),
    "two in a checkpoint": checkpointed(pair(torch.exp, lambda y: y.sin().exp())),
    "dropout in a checkpoint": checkpointed(lambda x: F.dropout(x, 0.5).exp()),
}


def results_of(fn, leaf):
    torch.manual_seed(0)
    found = fn(leaf * 1)
    return found if isinstance(found, tuple) else (found,)


def seen(fn, number, change):
    """What hooks and kept gradients of all results tell, while the gradient of one of them is differentiated again."""
    leaf = torch.tensor([0.5, 0.3, -0.2, 0.7], dtype=torch.double, requires_grad=True)
    results, told = results_of(fn, leaf), []

    def look(gradient, which):
        if gradient is None:  # of several results of one node
            return None
        told.append((which, gradient.detach().clone()))
        return gradient * 1.5 if change else None

    for which, result in enumerate(results):
        result.register_hook(lambda gradient, which=which: look(gradient, which))
        result.retain_grad()
    (gradient,) = torch.autograd.grad((results[number] ** 2).sum(), leaf, create_graph=True)
    gradient.square().sum().backward(retain_graph=True)
    ends = torch.autograd.grad(gradient.square().sum(), results, allow_unused=True, create_graph=True)
    thirds = [end.sum() for end in ends if end is not None and end.requires_grad]
    third = torch.autograd.grad(sum(thirds), leaf) if thirds else None
    return told, [result.grad for result in results], leaf.grad, ends, third


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_results_see_what_they_see_in_eager(program, partition):
    ours = compiled(program, partition=partition)
    for number in range(len(results_of(program, torch.ones(4)))):
        for change in (False, True):
            torch.testing.assert_close(seen(ours, number, change), seen(program, number, change))


def test_sizes_that_vary():
    ours = compiled(three, dynamic=True)
    torch.testing.assert_close(seen(ours, 2, True), seen(three, 2, True))


def test_a_hook_on_a_result_that_is_gone():
    def told(fn):
        x, found = torch.tensor([0.5], requires_grad=True), []
        y = fn(x)
        y.register_hook(found.append)
        total = y.sum()
        del y
        (gradient,) = torch.autograd.grad(total, x, create_graph=True)
        gradient.sum().backward()
        return found, x.grad

    torch.testing.assert_close(told(compiled(torch.exp)), told(torch.exp))


@pytest.mark.parametrize("program", [lambda x: x.exp().prod(), lambda x: (x.tanh() * x).softmax(0)[0]])
def test_hessians(program):
    x = torch.tensor([0.5, 0.25], dtype=torch.double)
    for of in (torch.autograd.functional.hessian, lambda f, x: torch.autograd.functional.hvp(f, x, torch.ones(2))):
        torch.testing.assert_close(of(compiled(program), x), of(program, x), check_dtype=False)


def penalty(critic, x):
    """A gradient penalty on the scores of a critic, and what a hook on the scores sees of it."""
    x, found = x.clone().requires_grad_(), []
    hidden, score = critic(x)
    score.register_hook(found.append)
    hidden.retain_grad()
    (gradient,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    (score.mean() + (gradient.norm(dim=1) - 1).square().mean()).backward()
    return found, hidden.grad, x.grad


def test_a_gradient_penalty():
    weight = torch.randn(3, 3, dtype=torch.double)

    def critic(x):
        hidden = (x @ weight).tanh()
        return hidden, hidden.square().sum(1).sigmoid()

    x = torch.randn(4, 3, dtype=torch.double)
    torch.testing.assert_close(penalty(compiled(critic), x), penalty(critic, x))


def test_a_result_of_which_eager_holds_the_value_must_not_be_written_to():
    for fn in (torch.exp, compiled(torch.exp)):
        x = torch.ones(3, requires_grad=True)
        y = fn(x)
        total = y.sum()
        y.detach().mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(total, x, create_graph=True)


@pytest.mark.parametrize("change", [lambda y, z: y.detach().mul_(2), lambda y, z: y.mul_(z)])
def test_a_result_of_which_eager_holds_nothing_may_be_written_to(change):
    program = pair(lambda x: x * 1, lambda y: (y + 1).sin())

    def twice(fn):
        x = torch.ones(3, requires_grad=True)
        y, z = fn(x)
        change(y, z)
        (gradient,) = torch.autograd.grad(z.sum() + y.square().sum(), x, create_graph=True)
        return gradient, torch.autograd.grad(gradient.sum(), x)

    torch.testing.assert_close(twice(compiled(program)), twice(program))


def test_a_result_that_nobody_reads_may_be_written_to():
    x = torch.ones(3, requires_grad=True)
    y, z = compiled(lambda x: (x.exp(), x.sin()), partition=aotgrad.min_cut_partition)(x)
    y.detach().mul_(2)
    torch.testing.assert_close(torch.autograd.grad(z.sum(), x), (x.cos(),))


def test_a_result_that_nobody_reads_is_told_in_one_sentence_where_torch_reads_all_of_them():
    x = torch.ones(3, requires_grad=True)
    y, z = compiled(lambda x: (x.exp(), x.tanh()), partition=aotgrad.min_cut_partition)(x)
    y.detach().mul_(2)
    (gradient,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, 1 - x.tanh().square())
    with pytest.raises(RuntimeError, match="a result of the same function was modified by an inplace operation"):
        gradient.sum().backward()


def test_a_result_that_was_freed_with_another_is_told_in_one_sentence():
    x = torch.ones(3, requires_grad=True)
    y, z = compiled(lambda x: (x.exp(), x.tanh()))(x)
    y.sum().backward()
    (gradient,) = torch.autograd.grad(z.sum(), x, create_graph=True)
    torch.testing.assert_close(gradient, 1 - x.tanh().square())
    with pytest.raises(RuntimeError, match="freed with another result of the same function"):
        gradient.sum().backward()


def test_a_checkpoint_around_the_function():
    def told(fn):
        x, found = torch.tensor([0.5], requires_grad=True), []
        y = checkpoint(fn, x, use_reentrant=False)
        y.register_hook(found.append)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        gradient.sum().backward()
        return found, x.grad

    ours = compiled(torch.exp)
    ours(torch.tensor([0.5], requires_grad=True))
    torch.testing.assert_close(told(ours), told(torch.exp))


def test_a_changed_input_that_the_gradients_read_is_refused():
    def program(x, w):
        x.copy_(w)
        x.exp_()

    w = torch.ones(1 << 15, requires_grad=True)  # a smaller one is kept as it was
    x = w * 1
    compiled(program)(x, w)
    (gradient,) = torch.autograd.grad(x.sum(), w, create_graph=True)
    with pytest.raises(RuntimeError, match="the function changes an input that its gradients depend on"):
        gradient.sum().backward()


@pytest.mark.parametrize("program", [torch.exp, pair(torch.exp, lambda y: (y + 1).sin().exp())])
def test_nothing_is_kept_in_a_circle(program):
    class Mark:
        pass

    x, marks = torch.ones(3, requires_grad=True), []
    found = compiled(program)(x)
    gc.collect()
    gc.disable()
    try:
        for result in found if isinstance(found, tuple) else (found,):
            result.grad_fn.metadata["mark"] = mark = Mark()
            marks.append(weakref.ref(mark))
        del found, result, mark
        assert [mark() for mark in marks] == [None] * len(marks)
    finally:
        gc.enable()


def test_what_eager_does_not_hold_is_not_held():
    """The sum is held, and the result that it was made of is not."""
    y, z = compiled(pair(torch.exp, lambda y: (y + 1).sin()))(torch.ones(3, requires_grad=True))
    memory = y.untyped_storage().data_ptr()
    held = [each for each in z.grad_fn.saved_tensors if each is not None]
    held += z.grad_fn.below.values()
    assert z.grad_fn.below
    assert memory not in {each.untyped_storage().data_ptr() for each in held}
    assert all(each.untyped_storage().nbytes() <= 16 for each in z.grad_fn.below.values())
