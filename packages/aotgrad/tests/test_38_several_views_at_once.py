"""Operators that give many views at once run once for all of them, and two views of one place stay two objects."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import aotgrad


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def without_gradients(x):
    with torch.no_grad():
        return x.unbind()


def older(x):
    parts = x.unbind()
    x.mul_(2)
    return parts


PROGRAMS = {
    "unbind": lambda x: x.unbind(),
    "iterated": lambda x: list(x),
    "split": lambda x: x.split(1),
    "views of them": lambda x: [row[1:] for row in x.unbind()],
    "of a view": lambda x: x.t().unbind(1),
    "of a result": lambda x: (x * 2).unbind(),
    "without gradients": without_gradients,
    "before a write": older,
}


def calls_of(compiled, x):
    with Calls() as calls:
        results = compiled(x)
    return results, [name for name in calls.names if name in ("unbind", "split")]


CASES = [(name, wants) for name in PROGRAMS for wants in (False, True) if name != "before a write" or not wants]


@pytest.mark.parametrize(("name", "wants"), CASES)
def test_one_call_for_all_views(name, wants):
    program = PROGRAMS[name]
    x, same = (torch.arange(40.0).view(20, 2).requires_grad_(wants) for _ in range(2))
    compiled = aotgrad.function(program, forward=aotgrad.run_eagerly)
    compiled(x.clone() if name == "before a write" else x)
    results, calls = calls_of(compiled, x)
    assert len(calls) == 1
    for ours, eager in zip(results, program(same), strict=True):
        assert torch.equal(ours, eager)
        assert (ours._base is None, ours.requires_grad) == (eager._base is None, eager.requires_grad)


def test_the_same_view_twice_is_two_objects():
    def program(x):
        return x.unbind()[0], x.unbind()[0], x.unbind()[1]

    x = torch.ones(3, 2)
    first, second, third = aotgrad.function(program, forward=aotgrad.run_eagerly)(x)
    assert len({id(first), id(second), id(third)}) == 3
    assert first.data_ptr() == second.data_ptr()


MODES = {"followed": torch.enable_grad, "unfollowed": torch.no_grad, "inference": torch.inference_mode}
FIRST = {
    "itself": lambda x: x,
    "view": lambda x: x.view(x.shape),
    "detached": lambda x: x.detach(),
    "data": lambda x: x.data,
    "item of a detached one": lambda x: x.detach().split(2)[1],
}
SECOND = {
    "unbind": lambda v: v.unbind(0),
    "split": lambda v: v.split(1),
    "chunk": lambda v: v.chunk(2),
    "items": lambda v: (v[0], v[1]),
    "views of several": lambda v: tuple(each.unsqueeze(0) for each in v.unbind(0)),
}


def observed(fn, is_leaf):
    """All that autograd tells of the results and of a write to one of them."""
    x = torch.arange(12.0).view(4, 3).requires_grad_()
    results = fn(x if is_leaf else x * 1)
    seen = [(r.requires_grad, r.is_leaf, r._is_view(), r.is_inference() or r._version) for r in results]
    bases = [results[1]._base is other for other in results]
    if results[0].requires_grad:
        results[0].sum().backward()
    weight = torch.ones((), requires_grad=True)
    try:
        results[0].mul_(weight)
        seen += [(r.requires_grad, r.is_inference() or r._version) for r in results]
    except RuntimeError as error:
        seen.append(str(error).split(" ", 1)[1][:60])
    return str((seen, bases, x.grad, [r.tolist() for r in results]))


@pytest.mark.parametrize("modes", list(itertools.product(MODES, MODES)), ids="-".join)
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("is_leaf", [True, False])
def test_views_of_views_that_were_made_in_another_mode(modes, first, second, is_leaf):
    def f(x):
        with MODES[modes[0]]():
            v = FIRST[first](x)
        with MODES[modes[1]]():
            return (*SECOND[second](v)[:2], v)

    compiled = aotgrad.function(f, forward=aotgrad.run_eagerly, inference=aotgrad.run_eagerly)
    assert observed(compiled, is_leaf) == observed(f, is_leaf)


@pytest.mark.parametrize("write", [lambda d: d.add_(1), lambda d: d[0].add_(1).mul_(2), lambda d: d.detach().add_(1)])
def test_writes_to_data_count_apart(write):
    def f(x):
        data = x.data
        write(data)
        return data[0], data[1], data

    compiled = aotgrad.function(f, forward=aotgrad.run_eagerly, inference=aotgrad.run_eagerly)
    assert observed(compiled, True) == observed(f, True)
