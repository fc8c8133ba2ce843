"""Operators that give many views at once run once for all of them, and two views of one place stay two objects."""

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
