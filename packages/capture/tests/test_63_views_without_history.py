"""Views of whose history torch tells nothing, and views that were given other data: used as eager uses them."""

import contextlib

import pytest
import torch

import capture


def outcome(function, make):
    w = torch.ones(3, requires_grad=True)
    try:
        told = function(w, *make(w))
    except RuntimeError as error:
        told = str(error)
    return str(told), str(w), str(w.grad)


def changed_after_the_view(w):
    a = w * 2
    with torch.no_grad():
        v = a.view(-1)
    a.mul_(2)
    return a, v


def wants_gradients_after_the_view(w):
    a = torch.zeros(3)
    with torch.no_grad():
        v = a.view(-1)
    a.add_(w)
    return a, v


def both_without_gradients(w):
    with torch.no_grad():
        a = w.view(-1)
        v = a.view(-1).mul_(1)
        a.mul_(0.5)
    return a, v


def one_of_several_changed(w):
    a = w * 2
    v = a.unbind()[0]
    with torch.no_grad():
        a.mul_(2)
    return a, v


MAKERS = [one_of_several_changed, changed_after_the_view, wants_gradients_after_the_view, both_without_gradients]


def across_new_data(w, a, v):
    w.data = torch.zeros(3)
    return w


USES = {
    "a leaf?": lambda w, a, v: v.is_leaf,
    "a step?": lambda w, a, v: v.grad_fn is None,
    "backward": lambda w, a, v: v.sum().backward(),
    "backward of the other": lambda w, a, v: a.backward(v),
    "gradients of it": lambda w, a, v: torch.autograd.grad(a.sum(), v, allow_unused=True),
    "lives on": across_new_data,
}


LOST = [f"{use}-both_without_gradients" for use in USES if use != "lives on"]


@pytest.mark.without_graphs("CPython makes views that lose a history", cases=LOST)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("use", USES)
def test_a_view_without_history(make, use):
    def program(w):
        return USES[use](w, *make(w))

    region = capture.optimize("eager", strict=True)(program)
    assert outcome(region, lambda w: ()) == outcome(program, lambda w: ())


def test_one_of_several_views_is_given_back_after_a_backward():
    def program(w):
        v = w.unbind()[0]
        v.square().backward()
        with torch.no_grad():
            w.mul_(2)
        return v

    expected, actual = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    assert program(expected).item() == capture.optimize("eager", strict=True)(program)(actual).item()
    assert torch.equal(actual.grad, expected.grad)


def by_a_slice(w, y):
    y[1:] = w
    return y.add_(1)


def by_a_row(w, y):
    y[0].mul_(w)
    torch._foreach_add_([y, y], True)
    return y


def looked_at_between(w, y):
    y[1:] = w
    return y.is_leaf, y.add_(1)


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("use", [by_a_slice, by_a_row, looked_at_between])
def test_an_argument_gets_a_history_through_a_view(viewed, use):
    region = capture.optimize("eager", strict=True)(use)
    for make in (lambda w: (torch.ones(3, 3),), lambda w: (torch.ones(3, 3).t() if viewed else torch.ones(3, 3),)):
        assert outcome(region, make) == outcome(use, make)


def with_data(view, data):
    view.data = data
    return view


def inference_tensor():
    with torch.inference_mode():
        return torch.ones(3)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: (with_data(w[:1], w),),
        pytest.param(
            lambda w: (with_data(torch.zeros(3).view(-1), inference_tensor()),),
            marks=pytest.mark.without_graphs("torch makes no fake of what is unlike what it views: CPython uses it"),
        ),
        lambda w: (with_data(torch.zeros(3)[1:], torch.ones(3, dtype=torch.bfloat16)),),
    ],
)
@pytest.mark.parametrize(
    "use", [lambda w, y: y * 2, lambda w, y: y.detach().add_(1), lambda w, y: (y * w).sum().backward()]
)
def test_a_view_that_was_given_other_data(make, use):
    region = capture.optimize("eager", strict=True)(use)
    assert outcome(region, make) == outcome(use, make)


VIEWS = {
    "none": lambda t: t,
    "a view": lambda t: t.view(2, 2),
    "a part": lambda t: t[1:],
    "of einsum": lambda t: torch.einsum("i,i->", t, torch.ones(4)),
    "one of several": lambda t: t.unbind()[0],
    "a view of a view": lambda t: t.view(2, 2).t()[1],
}


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("view", VIEWS)
def test_a_write_without_gradients_keeps_the_history(view, mode):
    """Also where the graph goes backward for something else: what it finds is all there is."""

    def step(w, other):
        h = VIEWS[view](w * 3)
        with mode():
            h.add_(1.0)
        torch.autograd.backward([h.sum(), other.mean()])

    gradients = []
    for function in (step, capture.optimize("eager", strict=True)(step)):
        w, other = torch.ones(4, requires_grad=True), torch.ones(4, requires_grad=True)
        with contextlib.suppress(RuntimeError):  # torch lets nobody write to one of several views
            function(w, other)
        gradients.append((w.grad, other.grad))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("backward_first", [True, False])
def test_a_view_that_torch_lets_nobody_use_any_more_is_returned_as_it_is(backward_first):
    """It was made without gradients, and its base was written to with them: who asks for its history is refused."""

    def step(w, other):
        if backward_first:
            other.square().mean().backward()
        with torch.no_grad():
            view = w[:1]
        w.add_(1)
        return view

    w, other = torch.ones(2, requires_grad=True) * 2, torch.ones(2, requires_grad=True)
    view = capture.optimize("eager", strict=True)(step)(w, other)
    assert view._base is w._base or view._base is w
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        _ = view.grad_fn


@pytest.mark.parametrize("base_first", [True, False])
def test_a_view_wants_gradients_of_its_own(base_first):
    def f(x, y):
        y.requires_grad_()
        (y * 2).sum().backward()
        return y.grad

    compiled = capture.optimize("eager")(f)
    for wants_before in (base_first, not base_first):
        x = torch.ones(2)
        y = x.view(-1)
        x.requires_grad_(wants_before)
        assert torch.equal(compiled(x, y), torch.full((2,), 2.0))
    plain = torch.ones(2, requires_grad=True)
    assert torch.equal(compiled(plain, plain), torch.full((2,), 2.0))


@pytest.mark.parametrize("write", [lambda y: y.mul_(3), lambda y: torch._foreach_mul_([y], 3.0)])
def test_a_view_without_history_is_written_without_gradients(write):
    def f(x, y):
        with torch.no_grad():
            write(y)
        return (x * 2).sum()

    x = torch.ones(2, 2)
    y = x.t()
    x.requires_grad_()
    f(x, y)
    capture.optimize("eager", strict=True)(f)(x, y).backward()
    assert torch.equal(x, torch.full((2, 2), 9.0))
    assert torch.equal(x.grad, torch.full((2, 2), 2.0))
