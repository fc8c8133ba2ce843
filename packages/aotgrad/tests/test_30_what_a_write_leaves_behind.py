"""An argument with a history that the function writes to: backward comes by the old history as in eager, no more."""

import itertools

import pytest
import torch

import aotgrad

WRITES = {
    "scaled": lambda y, w: y.mul_(w),
    "added to": lambda y, w: y.add_(w),
    "in part": lambda y, w: y[0].mul_(w[0]),
    "overwritten": lambda y, w: y.copy_(w),
    "overwritten in part": lambda y, w: y[0].copy_(w[0]),
    "zeroed, then added to": lambda y, w: y.zero_().add_(w),
    "detached, then added to": lambda y, w: y.detach_().add_(w),
    "detached, then in part": lambda y, w: y.detach_()[0].copy_(w[0]),
}
RETURNED = {
    "nothing": lambda old, y, w: (),
    "a value of it": lambda old, y, w: (y.sin(),),
    "a view of it": lambda old, y, w: (y[0],),
    "what has nothing to do with it": lambda old, y, w: (w.sin(),),
    "several": lambda old, y, w: (y * 2, w.sin(), w + 1),
    "what was made before": lambda old, y, w: (old,),
    "that with it": lambda old, y, w: (old + y,),
    "that laid beside it": lambda old, y, w: (torch.cat([old, y]) * w.repeat(2),),
    "that with a part of it": lambda old, y, w: (old[0].add_(y[0]), old),
}
GIVEN = {
    "plain": lambda leaf: leaf * 1,
    "that holds something": lambda leaf: leaf.sin(),
    "with a view": lambda leaf: leaf.exp(),
    "itself a view": lambda leaf: leaf.sin().view(4)[1:],
    "that keeps its gradient": lambda leaf: leaf.sin(),
}


def seen(function, given, write, order, *, watched=True):
    """What hooks on the old history and the new one are told, what is left in all leaves, and what is refused.

    Eager itself crashes at hooks on a view that was written to, or forgets them where it was detached.
    """
    told, leaf = [], torch.linspace(0.5, 1.5, 3 if given != "itself a view" else 4).requires_grad_()
    w = torch.linspace(1.0, 2.0, 3).requires_grad_()
    if watched:
        w.register_post_accumulate_grad_hook(lambda w: told.append(str(w.grad)))
    y = GIVEN[given](leaf)
    if given != "itself a view" and write != "detached, then in part":
        y.register_hook(lambda gradient: told.append(f"old {gradient}"))
    if given == "that keeps its gradient":
        y.retain_grad()
    view = y[:2] if given == "with a view" else None
    results = [*function(y, w), y, *([] if view is None else [view])]
    if given != "itself a view":
        y.register_hook(lambda gradient: told.append(f"new {gradient}"))
    for result in results[::order]:
        try:
            result.sum().backward()
        except RuntimeError as error:
            told.append(str(error)[:40])
    kept = y.grad if y.retains_grad else None
    return [*told, *(None if each is None else each.tolist() for each in (leaf.grad, w.grad, kept)), y.tolist()]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("returned", RETURNED)
def test_backward_after_a_write(returned, given):
    watched = returned != "what was made before"  # all parameters are told of a backward, here of those without `w`
    for write, order in itertools.product(WRITES, (1, -1)):
        if write.startswith("detached") and given in ("itself a view", "that keeps its gradient"):
            continue  # which eager refuses

        def program(y, w, write=write):
            old = y * 2
            WRITES[write](y, w)
            return RETURNED[returned](old, y, w)

        expected = seen(program, given, write, order, watched=watched)
        compiled = aotgrad.function(program, forward=aotgrad.run_eagerly)
        assert seen(compiled, given, write, order, watched=watched) == expected, (write, order)


def test_results_go_back_by_no_history_that_only_another_has():
    """Nor again once that is freed."""
    compiled = aotgrad.function(lambda y, w: (y + w, w.mean()), forward=aotgrad.run_eagerly)
    leaf = torch.ones(3, requires_grad=True)
    y, w = leaf.sin(), leaf * 1
    _, mean = compiled(y, w)
    y.sum().backward()
    mean.backward()
    assert torch.allclose(leaf.grad, leaf.cos() + 1 / 3)


def test_gradients_with_respect_to_an_argument_that_was_written_to():
    def program(y, w):
        y.mul_(w)
        return y.sin().sum()

    found = []
    for function in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        w = torch.ones(3, requires_grad=True)
        y = w * 2
        found.append(torch.autograd.grad(function(y, w), (y, w)))
    assert all(map(torch.allclose, *found))


def test_an_argument_that_is_detached_and_written_again_forgets_the_first_call():
    def program(y, w):
        y.detach_()
        y[0] = w[0]

    compiled = aotgrad.function(program, forward=aotgrad.run_eagerly)
    y, w = torch.ones(3), torch.ones(3, requires_grad=True)
    for _ in range(3):
        compiled(y, w)
        y.sum().backward()
    assert w.grad.tolist() == [3, 0, 0]


@pytest.mark.parametrize("write", [lambda w, u: w.copy_(u), lambda w, u: w[0].mul_(u[0])], ids=["whole", "in part"])
def test_a_leaf_that_becomes_a_result_is_left_to_eager(write):
    """Written back to the leaf that it was, which autograd refuses; the program is in order."""

    def program(w):
        u = w * 2
        w.detach_()
        write(w, u)

    program(torch.ones(3, requires_grad=True))
    with pytest.raises(aotgrad.Unsupported, match="requires_grad of graph input 0 changes"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(3, requires_grad=True))
