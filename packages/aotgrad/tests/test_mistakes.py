"""What people get wrong with the entry points: a sentence that says what to do."""

import re

import pytest
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import aotgrad
from aotgrad import run_eagerly

X, W = torch.randn(4, 3), torch.randn(3)
LINEAR = nn.Linear(3, 3)


def function(x, w):
    return torch.relu(x * w)


def program():
    return torch.export.export(nn.Linear(3, 2), (X,))


def graph(*examples, forward=run_eagerly):
    return aotgrad.compile(fx.symbolic_trace(function), list(examples), forward=forward)


def said_of_devices():
    """What torch's stand-ins say of tensors on two devices: releases differ."""
    with FakeTensorMode():
        try:
            return str(torch.ones(3) * torch.ones(3, device="meta"))
        except RuntimeError as error:
            return re.split("[,.!]", str(error))[0]


OTHER_DEVICES = said_of_devices()
MISTAKES = {
    "a function": (lambda: aotgrad.compile(function, [X, W], forward=run_eagerly), "aotgrad.function compiles a"),
    "a module": (lambda: aotgrad.compile(LINEAR, [X], forward=run_eagerly), "aotgrad.module compiles a module"),
    "a program": (lambda: aotgrad.compile(program(), [X], forward=run_eagerly), "give program.module()"),
    "no graph": (lambda: aotgrad.compile(5, [X], forward=run_eagerly), "takes a torch.fx.GraphModule, not an int"),
    "too few": (lambda: graph(X), "the graph has 2 inputs (x, w) and was given 1 example inputs"),
    "too many": (lambda: graph(X, W, W), "the graph has 2 inputs (x, w) and was given 3 example inputs"),
    "one tensor": (
        lambda: aotgrad.compile(fx.symbolic_trace(function), X, forward=run_eagerly), "example_inputs is a Tensor",
    ),
    "None among them": (lambda: graph(X, None), "'Tensor' and 'NoneType'"),
    "other devices": (lambda: graph(X, W.to("meta")), OTHER_DEVICES),
    "no compiler": (lambda: graph(X, W, forward=None), "forward is None; give a compiler (gm, example_inputs)"),
    "no function": (lambda: aotgrad.function(5, forward=run_eagerly), "takes a function of tensors, not an int"),
    "a program as function": (lambda: aotgrad.function(program(), forward=run_eagerly), "program.module()"),
    "no module": (lambda: aotgrad.module(function, forward=run_eagerly), "aotgrad.function compiles a function"),
    "a program as module": (lambda: aotgrad.module(program(), forward=run_eagerly), "program.module()"),
    "a function over parameters": (
        lambda: aotgrad.function(lambda x: LINEAR(x), forward=run_eagerly)(X), "its gradient would be lost; pass it",
    ),
    "called with too few": (lambda: graph(X, W)(X), "missing 1 required positional argument"),
    "called with too many": (lambda: graph(X, W)(X, W, W), "takes 2 positional arguments but 3 were given"),
    "called by name": (lambda: graph(X, W)(X, w=W), "unexpected keyword argument 'w'"),
    "called with gradients and too few": (lambda: graph(X.clone().requires_grad_(), W)(X), "missing 1 required"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises((TypeError, aotgrad.AotgradError)) as raised:
        mistake()
    assert sentence in str(raised.value)


def test_a_wrong_argument_is_one_in_python_too():
    assert issubclass(aotgrad.WrongArguments, TypeError)
