"""What people get wrong with ``capture``: a sentence that says what to do, with and without a device."""

import pytest
import torch
from torch import nn

import cudagraphs

X = torch.ones(2, 3)


def function(x, w):
    return x * w


MISTAKES = {
    "no function": (lambda: cudagraphs.capture(5, [X]), "takes a callable of tensors, not 5"),
    "a program": (
        lambda: cudagraphs.capture(torch.export.export(nn.Linear(3, 2), (X,)), [X]), "give program.module()",
    ),
    "one tensor": (lambda: cudagraphs.capture(function, X), "example_inputs is a Tensor; give a list"),
    "no examples": (lambda: cudagraphs.capture(function, None), "example_inputs is a NoneType; give a list"),
    "one position": (lambda: cudagraphs.capture(function, [X, X], static_inputs=1), "are lists of positions, not 1"),
    "a name for positions": (lambda: cudagraphs.capture(function, [X], static_inputs="a"), "of positions, not 'a'"),
    "names among them": (lambda: cudagraphs.capture(function, [X], mutated_inputs=["x"]), "of positions, not ['x']"),
    "options as a mapping": (lambda: cudagraphs.capture(function, [X], options={"a": 1}), "give cudagraphs.Options("),
    "an option of another type": (lambda: cudagraphs.Options(warmups="a"), "option warmups is an integer, not 'a'"),
    "half a limit": (lambda: cudagraphs.Options(pool_bytes=0.5), "option pool_bytes is an integer or None, not 0.5"),
    "a position too far": (lambda: cudagraphs.capture(function, [X], static_inputs=[3]), "there is no input 3"),
    "by name": (lambda: cudagraphs.capture(function, [X, X])(X, w=X), "by position, and got w by name"),
    "a module by name": (lambda: cudagraphs.capture(nn.Linear(3, 2), [X])(input=X), "and got input by name"),
    "a module without input": (lambda: cudagraphs.capture(nn.Linear(3, 2), [X])(), "with 1 example inputs and is"),
    "a module with too many": (lambda: cudagraphs.capture(nn.Linear(3, 2), [X])(X, X), "and is called with 2"),
    "no graph": (lambda: cudagraphs.check_graph(3), "check_graph takes a torch.fx.GraphModule, not a int"),
    "no device": (lambda: cudagraphs.manager_of("x"), "takes the number of one of "),
    "a device that is not there": (lambda: cudagraphs.manager_of(99), "CUDA devices, not 99"),
    "too few": (lambda: cudagraphs.capture(function, [X, X])(X), "missing 1 required positional argument: 'w'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises((TypeError, cudagraphs.CudaGraphsError)) as raised:
        mistake()
    assert sentence in str(raised.value)
