"""Results that a program writes to in place, beside views of them: how often, and what a later write comes to."""

import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import aotgrad

MADE = {
    "followed": lambda x, w: x * w,
    "not followed": lambda x, w: x + 1,
    "from nothing": lambda x, w: torch.zeros(2, 3),
    "summed up": lambda x, w: torch.zeros(2, 3).add_(w),
}
WRITES = {
    "none": lambda y, w: None,
    "twice": lambda y, w: y.add_(1).mul_(2),
    "by a parameter": lambda y, w: y[1].mul_(w[0]),
    "detached": lambda y, w: y.detach().add_(1),
    "by data": lambda y, w: y.data.add_(1),
    "without gradients": lambda y, w: torch.no_grad()(y.add_)(1),
}
VIEWS = {
    "a row": lambda y: y[0],
    "detached": lambda y: y.detach(),
    "its data": lambda y: y.data,
    "one of several": lambda y: y.split(1)[0],
    "a value of it": lambda y: y.exp(),
}
RETURNED = [lambda y, v: (y, v), lambda y, v: (v, y), lambda y, v: (v,)]


def seen(results, w):
    """Versions before and after a later write to the first, histories, and gradients."""
    yield [(each._version, each.requires_grad, each.is_leaf) for each in results]
    try:
        yield results[0].mul_(2).tolist()
    except RuntimeError as error:
        yield str(error)[:50]
    yield [(each._version, each.tolist()) for each in results]
    for result in results:
        try:
            (found,) = torch.autograd.grad(result.sum(), w, retain_graph=True, allow_unused=True)
            yield None if found is None else found.tolist()
        except RuntimeError as error:
            yield str(error)[:50]


def as_eager(program):
    """Whether it is the same as in eager, or is refused."""
    compiled, found = aotgrad.function(program, forward=aotgrad.run_eagerly), []
    for run in (compiled, program):
        x, w = torch.full((2, 3), 0.5), torch.full((2, 3), 0.7, requires_grad=True)
        try:
            found.append(list(seen(run(x, w), w)))
        except aotgrad.Unsupported:
            return True
        except RuntimeError as error:
            found.append(str(error))
    return found[0] == found[1]


@pytest.mark.parametrize("written", WRITES)
@pytest.mark.parametrize("made", MADE)
def test_results_and_views_of_them_are_written_as_often_as_in_eager(made, written):
    for view, returned, first in itertools.product(VIEWS, RETURNED, (True, False)):

        def program(x, w, view=VIEWS[view], returned=returned, first=first):
            y = MADE[made](x, w)
            if first:
                WRITES[written](y, w)
                return returned(y, view(y))
            v = view(y)
            WRITES[written](y, w)
            return returned(y, v)

        assert as_eager(program), (view, returned, first)


def test_a_sum_that_takes_the_memory_of_a_summand_is_not_written_to():
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    compiled = aotgrad.function(lambda x, w: (x * 2 + w, (x * 3).add(x)), forward=aotgrad.run_eagerly)
    assert [result._version for result in compiled(x, w)] == [0, 0]


def test_a_view_that_torch_forbids_to_use_is_refused():
    def program(x, w):
        y = x * w
        part = y.split(1)[0]
        y.add_(1)
        return part

    with pytest.raises(aotgrad.Unsupported, match="a view made without gradients"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(2, 3), torch.ones(2, 3, requires_grad=True))


WRITTEN_IN_PART = {
    "copysign": lambda part, x: part.copysign_(x[:1]),
    "power": lambda part, x: part.pow_(2.5),
    "hypotenuse": lambda part, x: part.hypot_(x[:1]),
    "sigmoid": lambda part, x: part.sigmoid_(),
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("write", WRITTEN_IN_PART.values(), ids=WRITTEN_IN_PART)
def test_backward_reads_a_part_of_a_result_that_it_saved(write, several):
    """Saved is a view of the result, made before the result has a history."""

    def program(x, w):
        made = x * w
        write(made[1:2], x)
        return (made, made.sum()) if several else (made,)

    found = []
    for function in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        x, w = torch.tensor([0.5, 1.5, 2.0]), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        function(x, w)[-1].sum().backward()
        found.append(w.grad)
    assert torch.allclose(*found, equal_nan=True)


AGAIN = {
    "tanh": torch.tanh,
    "exp": torch.exp,
    "softmax": lambda x: x.softmax(-1),
    "two steps": lambda x: x.tanh().exp(),
    "norm": lambda x: torch.nn.functional.layer_norm(x, (3,)).sigmoid(),
}
BESIDE = {
    "alone": lambda b, w: (b,),
    "and what comes from it": lambda b, w: (b, b.exp()),
    "and another result": lambda b, w: (b, w * w),
    "and one with history in common": lambda b, w: (b, w.sigmoid(), w.sigmoid() * w),
}


def gradients_once_written(function):
    """What backward gives after a write to the first result, and what a second one says."""
    leaf = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    results = function(leaf * 1)
    results[0].add_(1)
    loss = sum((each * each).sum() for each in results)
    loss.backward()
    with pytest.raises(RuntimeError) as error:
        sum(each.sum() for each in results).backward()
    return leaf.grad, str(error.value)[:40]


@pytest.mark.parametrize("partition", [aotgrad.default_partition, aotgrad.min_cut_partition])
@pytest.mark.parametrize("beside", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("inner", AGAIN.values(), ids=AGAIN)
def test_what_a_checkpoint_computes_again_may_be_written_to(inner, beside, partition):
    for reentrant in (False, True):

        def program(w, reentrant=reentrant):
            return beside(checkpoint(inner, w, use_reentrant=reentrant), w)

        compiled = aotgrad.function(program, forward=aotgrad.run_eagerly, partition=partition)
        (ours, says), (theirs, eager_says) = gradients_once_written(compiled), gradients_once_written(program)
        assert torch.allclose(ours, theirs)
        assert says == eager_says
