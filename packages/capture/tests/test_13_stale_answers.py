"""What changes between two calls other than in the arguments: held objects that become one, registered classes, and
state of torch's that decides what an operator gives."""

import abc

import pytest
import torch

import capture


class Held:
    def __init__(self, **attributes):
        vars(self).update(attributes)


CELL = {"first": [1.0], "second": [1.0]}


def written_cell(held, x):
    CELL["first"].append(2.0)
    return x * len(CELL["second"])


def written_list(held, x):
    held.first.append(2.0)
    return x * len(held.second)


def written_dict(held, x):
    held.first["k"] = 5.0
    return x * held.second["k"]


def written_object(held, x):
    held.first.k = 5.0
    return x * held.second.k


def compared(held, x):
    return x * (2 if held.first is held.second else 3)


PAIRS = {
    "list": (written_list, lambda: [1.0]),
    "dict": (written_dict, lambda: {"k": 1.0}),
    "object": (written_object, lambda: Held(k=1.0)),
    "global": (written_cell, lambda: [1.0]),
    "is, of lists": (compared, lambda: [1.0]),
    "is, of objects": (compared, Held),
    "is, of tensors": (compared, lambda: torch.ones(1)),
    "is, of modules": (compared, lambda: torch.nn.Linear(1, 1)),
}


@pytest.mark.parametrize("where", [Held, torch.nn.Module])
@pytest.mark.parametrize("name", PAIRS)
def test_what_two_names_hold_may_become_one(name, where):
    program, make = PAIRS[name]
    held, answers = where(), {}
    compiled = capture.optimize("eager")(lambda x: program(held, x))
    for shared in (False, True, False):
        for run in (lambda x: program(held, x), compiled):
            held.first = CELL["first"] = make()
            held.second = CELL["second"] = held.first if shared else make()
            answers[run is compiled] = run(torch.ones(1)).item()
        assert answers[True] == answers[False]


def test_a_class_that_is_registered_later_is_one():
    base, own = abc.ABCMeta("Base", (), {}), type("Own", (), {})
    compiled = capture.optimize("eager")(lambda x, o: x * (2 if isinstance(o, base) else 3 + issubclass(own, base)))
    assert compiled(torch.ones(1), own()).item() == 3
    base.register(own)
    assert compiled(torch.ones(1), own()).item() == 2


MAKERS = {
    "ones": lambda x: torch.ones(2),
    "tensor": lambda x: torch.tensor([1.5, 2.0]),
    "divided": lambda x: torch.arange(3) / 2,
    "number": lambda x: torch.arange(3) * 1.5,
    "linspace": lambda x: torch.linspace(0, 1, 3) + x[0],
}


def fixing(gm, inputs):
    """Compiles a graph to what gives the dtypes of its first call."""
    dtypes = []

    def run(*args):
        found = gm(*args)
        dtypes.extend(each.dtype for each in found if len(dtypes) < len(found))
        return [each.to(dtype) for each, dtype in zip(found, dtypes, strict=True)]

    return run


@pytest.mark.parametrize("name", MAKERS)
def test_the_default_dtype_is_that_of_the_call(name):
    compiled, before = capture.optimize(fixing)(MAKERS[name]), torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            assert compiled(torch.ones(2, dtype=torch.float16)).dtype == dtype
    finally:
        torch.set_default_dtype(before)


def test_the_dtype_of_autocast_is_that_of_the_call():
    def program(x):
        with torch.autocast("cpu"):
            return x @ x

    compiled = capture.optimize("eager")(program)
    before = torch.get_autocast_dtype("cpu")
    try:
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cpu", dtype)
            assert compiled(torch.ones(2, 2)).dtype == dtype
    finally:
        torch.set_autocast_dtype("cpu", before)
