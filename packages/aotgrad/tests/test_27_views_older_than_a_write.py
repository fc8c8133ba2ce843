"""Views that were made before what they view was written to: should it want a gradient later, they come from it."""

import pytest
import torch

import aotgrad


def before(x):
    view = x[1:]
    x.mul_(2)
    return x, view


def by_the_view(x):
    view = x.view(3, 1)
    view.mul_(2)
    return x, view


def after(x):
    x.mul_(2)
    return x, x[1:]


def between(x):
    first = x[1:]
    x.mul_(2)
    return x, first, x[:1]


def twice(x):
    view = x[1:]
    x.add_(1)
    return x, view, view


def parts(x):
    first, _, last = x.split(1)
    x.add_(1)
    return x, first, last


def without_counting(x):
    view = x[1:]
    x.data.mul_(2)
    return x, view


def of_a_result(x):
    made = x * 2
    view = made[1:]
    made.add_(1)
    return made, view


def without_gradients(x):
    with torch.no_grad():
        view = x[1:]
    x.mul_(2)
    return x, view


def of_a_result_written_by_a_view(x):
    made = x * 2
    view = made[1:]
    made.view(3, 1).add_(1)
    return made, view


def of_a_result_overwritten_by_a_view(x):
    made = x * 2
    made.view(3, 1).copy_(x[:, None])
    return made, made[1:], made.view(1, 3)


PROGRAMS = [
    before, by_the_view, after, between, twice, parts, without_counting, of_a_result, without_gradients,
    of_a_result_written_by_a_view, of_a_result_overwritten_by_a_view,
]  # fmt: skip


def seen(function):
    x = torch.tensor([1.0, 2.0, 3.0])
    base, *views = function(x)
    yield base._is_view(), [view._base is base for view in views]
    base.requires_grad_()
    for view in views:
        try:
            yield view.requires_grad, view.is_leaf, view._version, view.tolist()
            view.square().sum().backward()
        except RuntimeError as error:
            yield str(error)[:40]
        yield None if base.grad is None else base.grad.tolist()


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_come_from_what_they_view(program):
    compiled = aotgrad.function(program, forward=aotgrad.run_eagerly)
    assert list(seen(compiled)) == list(seen(program))


@pytest.mark.timeout(60)
def test_a_view_is_asked_for_its_history_while_it_is_given_one():
    """Autograd forgets the view's hooks then, by an attribute of Python's: whoever asks for its history there waits."""

    def program(x):
        view = x.view(-1)
        view.set_(view)
        return view * 2

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="set_"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(x * 1).sum().backward()


@pytest.mark.parametrize("name", ["unsqueeze_", "squeeze_", "t_"])
def test_another_layout_of_a_view_is_no_write(name):
    def program(x):
        view = x.view(2, 2)
        view.unsqueeze_(0) if name == "unsqueeze_" else getattr(view, name)()
        return x.sin()

    x = torch.ones(4, requires_grad=True)
    aotgrad.function(program, forward=aotgrad.run_eagerly)(x * 1).sum().backward()
    assert torch.allclose(x.grad, torch.ones(4).cos())


@pytest.mark.parametrize("whole", [True, False])
def test_a_view_that_is_used_after_a_write_to_what_it_views(whole):
    """Autograd no longer comes by an argument that is a view itself."""

    def program(v, w):
        view = v[1:]
        view.mul_(w)
        return view / 2

    def compiled():
        w = torch.full((3,), 3.0, requires_grad=True)
        base = w * torch.ones(3)
        return aotgrad.function(program, forward=aotgrad.run_eagerly)(base if whole else base.view(3), w[1:])

    if whole:
        compiled().sum().backward()
    else:
        with pytest.raises(aotgrad.AotgradError, match="is a view is used after a write"):
            compiled()
