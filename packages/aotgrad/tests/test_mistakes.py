"""What people get wrong with the entry points: a sentence that says what to do."""

import re

import pytest
import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import aotgrad
from aotgrad import run_eagerly

X, W = torch.randn(4, 3), torch.randn(3)
LEAF = X.clone().requires_grad_()
LINEAR = nn.Linear(3, 3)


def function(x, w):
    return torch.relu(x * w)


def program():
    return torch.export.export(nn.Linear(3, 2), (X,))


def graph(*examples, forward=run_eagerly):
    return aotgrad.compile(fx.symbolic_trace(function), list(examples), forward=forward)


def by(forward, **options):
    return aotgrad.function(function, forward=forward, **options)


def returning(results):
    return lambda gm, examples: lambda inputs: results


def said_of_devices():
    """What torch's fakes say of tensors on two devices: releases differ."""
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
    "a compiler that returns nothing": (lambda: by(lambda gm, inputs: None)(X, W), "returned None; it has to return a"),
    "no partition": (lambda: by(run_eagerly, partition="mincut")(X, W), "partition is a str; give a function of"),
    "a partition of nothing": (lambda: aotgrad.default_partition(3), "takes the joint graph of forward and backward"),
    "a cut of no graph": (lambda: aotgrad.min_cut_partition(by), "not the function by: pass it as `partition`"),
    "no decompositions": (lambda: by(run_eagerly, decompositions=3)(X, W), "decompositions is an int; give a table"),
    "a name for a table": (lambda: by(run_eagerly, decompositions="core")(X, W), "aotgrad.decompositions.core()"),
    "an operator of any form": (
        lambda: by(run_eagerly, decompositions={torch.ops.aten.sin: torch.sin}), "torch.ops.aten.sin.default for one",
    ),
    "no rule": (
        lambda: by(run_eagerly, decompositions={torch.ops.aten.sin.default: 3}), "aten.sin.default in decompositions",
    ),
    "too few results": (lambda: by(returning(()))(X, W), "with the graph's 1 value: got 0"),
    "too many results": (lambda: by(returning((X, X)))(X, W), "with the graph's 1 value: got 2"),
    "no list of results": (lambda: by(returning(3))(X, W), "with the graph's 1 value: got an int"),
    "too few to save": (lambda: by(returning((X,)))(LEAF, W), "compiler of the forward graph made a callable"),
    "too few gradients": (
        lambda: by(run_eagerly, backward=returning(()))(LEAF, W).sum().backward(), "the backward graph made a callable",
    ),
    "too few beside changes": (
        lambda: aotgrad.function(lambda x: x.add_(1).sin(), forward=returning(()))(X.clone()), "the graph's 2 values",
    ),
    "no stage": (lambda: aotgrad.show(3), "aotgrad.show takes a joint graph", "not an int"),
    "no graph to run": (lambda: run_eagerly(3, [X]), "aotgrad.run_eagerly takes a torch.fx.GraphModule, not an int"),
    "called with too few": (lambda: graph(X, W)(X), "missing 1 required positional argument"),
    "called with too many": (lambda: graph(X, W)(X, W, W), "takes 2 positional arguments but 3 were given"),
    "called by name": (lambda: graph(X, W)(X, w=W), "unexpected keyword argument 'w'"),
    "called with gradients and too few": (lambda: graph(X.clone().requires_grad_(), W)(X), "missing 1 required"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(name):
    mistake, *sentences = MISTAKES[name]
    with pytest.raises((TypeError, aotgrad.AotgradError)) as raised:
        mistake()
    assert all(sentence in str(raised.value) for sentence in sentences), raised.value


RAISING = {
    "a size": (nn.Linear(3, 2), torch.ones(2, 7)),
    "too few": (function, X),
    "a leaf changed": (lambda x: x.add_(1), LEAF),
    "its own": (lambda x: {}[x.sin().shape[0]], X),
}


@pytest.mark.parametrize("name", RAISING)
def test_a_program_that_raises_raises_its_own_error_and_nothing_is_logged(name, caplog):
    program, x = RAISING[name]
    compile = aotgrad.module if isinstance(program, nn.Module) else aotgrad.function
    found = []
    for each in (program, compile(program, forward=run_eagerly)):
        with pytest.raises((TypeError, RuntimeError, KeyError)) as raised:
            each(x)
        found.append((raised.type, str(raised.value), raised.value.__context__))
    assert found[0] == found[1]
    assert not caplog.records


def test_effects_ahead_of_the_error_happen_once():
    def program(x, seen):
        seen.add_(1)
        return x @ torch.rand(seen.numel(), 2)

    compiled, seen, state = aotgrad.function(program, forward=run_eagerly), torch.zeros(9), torch.get_rng_state()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        compiled(X, seen)
    assert seen.eq(1).all()
    drawn, _ = torch.get_rng_state(), torch.set_rng_state(state)
    torch.rand(9, 2)
    assert torch.equal(drawn, torch.get_rng_state())


def test_a_program_that_only_eager_can_run_is_refused_untouched():
    def program(x):
        x.add_(1)
        return x + 1 if x.sum() > 0 else x

    x = X.clone()
    with pytest.raises(aotgrad.Unsupported, match="run it eagerly: the error may be its own"):
        aotgrad.function(program, forward=run_eagerly)(x)
    assert torch.equal(x, X)


def test_a_wrong_argument_is_one_in_python_too():
    assert issubclass(aotgrad.WrongArguments, TypeError)
