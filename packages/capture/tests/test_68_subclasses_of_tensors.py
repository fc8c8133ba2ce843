"""Tensors of the program's own classes: what they are asked in eager, and nothing more."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

import capture


class Logging(torch.Tensor):
    asked: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def ones(*shape):
    return torch.ones(*shape)


def logging(*shape):
    return torch.ones(*shape).as_subclass(Logging)


def with_gradient(gradient):
    made = torch.ones(3, requires_grad=True)
    made.grad = gradient
    return made


OTHERS = (ones(3), logging(3), logging(4), ones(2, 3).t(), logging(2, 3).t(), logging(3).double(), logging(3).long(), 2)
CASES = {
    "an operand": (lambda x: x * 2 + 1, OTHERS),
    "the second": (lambda pair: pair[0] + pair[1], [(ones(1), other) for other in OTHERS]),
    "an item": (lambda items: items["x"] * 2, [{"x": other} for other in OTHERS]),
    "its sizes": (lambda pair: pair[0] + pair[1].shape[0], [(ones(1), other) for other in OTHERS[:4]]),
    "its class": (lambda pair: pair[0] + isinstance(pair[1], Logging), [(ones(1), other) for other in OTHERS]),
    "whether it is there": (lambda pair: pair[0] + (pair[1] is None), [(ones(1), other) for other in (None, *OTHERS)]),
    "its gradient": (lambda x: x + (x.grad is None), [with_gradient(other) for other in (None, logging(3), ones(3))]),
    "a gradient of its own": (lambda x: x + (x.grad is None), [ones(3), logging(3), ones(4), logging(4)]),
    "whether it is the same": (lambda pair: pair[0] + (pair[0] is pair[1]), [(one, one) for one in OTHERS[:4]]),
    "a view": (lambda x: x.mul_(2), [ones(3), ones(3).as_subclass(Logging)[:2], logging(3).as_subclass(torch.Tensor)]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_are_asked_what_eager_asks(name, dynamic):
    function, arguments = CASES[name]
    found = []
    for each in (function, capture.optimize("eager", dynamic=dynamic)(function)):
        Logging.asked.clear()
        for argument in (*arguments, *reversed(arguments)):
            each(argument)
        found.append(list(Logging.asked))
    assert found[1] == found[0]


class Wrapper(torch.Tensor):
    """Answers everything by code, its sizes among it."""

    asked: list[str] = []

    @staticmethod
    def __new__(cls, inner):
        computes = {"dispatch_sizes_strides_policy": "sizes", "dispatch_device": True, "dispatch_layout": True}
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, **computes)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.asked.append(str(func))
        result = func(*(each.inner if isinstance(each, Wrapper) else each for each in args), **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_a_miss_asks_no_wrapper():
    asked = []
    for each in (torch.neg, capture.optimize("eager")(lambda x: -x)):
        Wrapper.asked.clear()
        for x in (ones(3), Wrapper(ones(3)), ones(4), Wrapper(ones(2, 3))):
            each(x)
        asked.append(list(Wrapper.asked))
    assert asked[1] == asked[0] == ["aten.neg.default"] * 2


class Seen(TorchFunctionMode):
    """Notes what is called of torch, reads of attributes among it."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_mode_sees_what_the_program_calls_and_nothing_that_capture_reads(x, before):
    """However many versions there are already, and whether they were called since."""

    def program(a, b):
        return (a.sin() * b).sum()

    region = capture.optimize("eager")(program)
    for size in range(before):
        region(torch.ones(3, size + 1), torch.ones(3, size + 1))
    for _ in range(2):
        with Seen() as ours:
            region(x, x)
        with Seen() as eager:
            program(x, x)
        assert ours.names == eager.names == ["sin", "mul", "sum"]
