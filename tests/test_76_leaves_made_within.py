"""Tensors that a program makes and wants the gradient of, within a graph: whose gradient it is, three times."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import capture
import compile_api

WHOLE, LEAVING = {}, {}


def whole(function):
    """A program that nobody can ask for the gradient later: one graph."""
    WHOLE[function.__name__] = function
    return function


def leaving(function):
    """A program that gives somebody the tensor itself: CPython makes it."""
    LEAVING[function.__name__] = function
    return function


@whole
def nobody_asks(x, w):
    hidden = x[:, None]
    hidden.requires_grad = True
    loss = (hidden * w).square().sum()
    loss.backward()
    return loss.detach()


@whole
def asked_before_and_behind(x, w):
    leaf = x.clone().requires_grad_()
    before = leaf.grad
    (leaf * w).sum().backward()
    first = leaf.grad
    once = first.clone()
    (leaf * w.exp()).sum().backward()
    return before, once, first, first is leaf.grad


@whole
def attacked(x, w):
    noise = torch.zeros_like(x, requires_grad=True)
    for _ in range(3):
        ((x + noise) * w).square().sum().backward()
        with torch.no_grad():
            noise.add_(noise.grad.sign(), alpha=0.1)
        noise.grad.zero_()
    return x + noise.detach()


@whole
def chosen(x, w):
    leaf = x.clone().requires_grad_()
    (leaf.exp() * w).sum().backward(inputs=[leaf])
    return leaf.grad


@whole
def transposed(x, w):
    leaf = x.t().clone().t().requires_grad_()
    (leaf * w).sum().backward()
    return leaf.grad, leaf.grad.stride()


@whole
def a_part(x, w):
    leaf = x.clone().requires_grad_()
    (leaf[:1] * w).sum().backward()
    return leaf.grad


@whole
def not_reached(x, w):
    leaf = x.clone().requires_grad_()
    (w * 3).sum().backward()
    return leaf.grad


@whole
def history_of_others_goes_on(x, w):
    leaf = x.clone().requires_grad_()
    product = leaf * w
    product.sum().backward(retain_graph=True)
    return product


@leaving
def itself(x, w):
    leaf = x.clone().requires_grad_()
    (leaf * w).sum().backward()
    return leaf


@leaving
def within_a_dict(x, w):
    leaf = x.clone().requires_grad_()
    (leaf * w).sum().backward()
    return {"leaf": leaf, "product": leaf * 2}


@leaving
def its_history(x, w):
    leaf = x.clone().requires_grad_()
    (leaf * w).sum().backward()
    return leaf * 2


@leaving
def the_gradient_taken_away(x, w):
    leaf = x.clone().requires_grad_()
    (leaf * w).sum().backward()
    leaf.grad = None
    (leaf * w * 2).sum().backward()
    return leaf.grad


@leaving
def in_a_checkpoint(x, w):
    def inner(y):
        leaf = y.detach().requires_grad_()
        return (leaf * w).sin()

    checkpoint(inner, x, use_reentrant=False).sum().backward()
    return x + 1


def seen(value):
    """What somebody could see of a result, its gradient and the history that it has."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [each for item in value for each in seen(item)]
    if not isinstance(value, torch.Tensor):
        return [value]
    grads = [value.grad] if value.is_leaf else []
    return [value.detach(), value.requires_grad, value.is_leaf, *grads]


def outcomes(function):
    """Three calls: the weight has a gradient from the second on, and none in the third."""
    torch.manual_seed(0)
    w, found = torch.randn(3, 3).requires_grad_(), []
    for call in range(3):
        x = torch.randn(3, 3) * (call + 1)
        if call == 2:
            w.grad = None
        result = function(x, w)
        found += seen(result) + seen(w)
        leaf = result["leaf"] if isinstance(result, dict) else result
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            (leaf * 5).sum().backward()
            found += seen(leaf) + seen(w)
    return found


def compare(function, **options):
    expected, found = outcomes(function), outcomes(compile_api.compile(function, **options))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride()
        else:
            assert one == other


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", WHOLE)
def test_it_gets_its_gradient_within_the_graph(name, backend):
    compare(WHOLE[name], backend=backend, fullgraph=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", LEAVING)
def test_it_is_the_programs_own_where_somebody_has_it(name, backend):
    compare(LEAVING[name], backend=backend)


@pytest.mark.parametrize("name", ["itself", "within_a_dict", "its_history", "in_a_checkpoint"])
def test_it_is_no_whole_graph_where_somebody_has_it(name):
    compiled = compile_api.compile(LEAVING[name], backend="eager", fullgraph=True)
    with pytest.raises(capture.Unsupported, match="wants the gradient of"):
        compiled(torch.ones(3, 3), torch.ones(3, 3, requires_grad=True))
