"""What people get wrong with the entry points: a sentence that says what to do."""

import pytest
import torch
from torch import nn

import capture


def function(x, w):
    return x * w


X = torch.ones(2)
PROGRAM = torch.export.export(nn.Linear(2, 2), (X,))

MISTAKES = {
    "no backend": (lambda: capture.optimize(5), "a backend is a callable (gm, example_inputs) -> callable, not 5"),
    "a module as backend": (lambda: capture.optimize(nn.ReLU()), "optimize(backend)(f)"),
    "without parentheses": (lambda: capture.optimize(function)(X, X), "optimize(backend)(f)(*args)"),
    "no function": (lambda: capture.optimize()(5), "takes a function, a method or a module, not 5"),
    "a class": (lambda: capture.optimize()(nn.Linear), "takes a function, a method or a module, not <class"),
    "a program": (lambda: capture.optimize()(PROGRAM), "not an ExportedProgram: give program.module()"),
    "a program to export": (lambda: capture.export(PROGRAM), "not an ExportedProgram: give program.module()"),
    "a program to explain": (lambda: capture.explain(PROGRAM), "not an ExportedProgram: give program.module()"),
    "all at once to export": (lambda: capture.export(function, X, X), "in a second call: export(f)(*args)"),
    "all at once to explain": (lambda: capture.explain(function, X, w=X), "in a second call: explain(f)(*args)"),
    "no arguments": (lambda: capture.export(function)(X), "missing 1 required positional argument: 'w'"),
    "no graph": (lambda: capture.export(lambda x: x)(X), "it runs no tensor operation"),
    "a backend of another shape": (lambda: capture.optimize(lambda gm: gm)(function)(X, X), "the backend failed on"),
    "a backend that returns nothing": (lambda: capture.optimize(print)(function)(X, X), "NoneType, which cannot be"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises((TypeError, capture.CaptureError)) as raised:
        mistake()
    assert sentence in str(raised.value)
