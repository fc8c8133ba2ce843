"""What people get wrong with the entry points: a sentence that says what to do."""

import contextlib
import sys
import typing

import pytest
import torch
from torch import nn

import capture


def function(x, w):
    return x * w


def two(x, w):
    return x * w, x + w


def changing(x, w):
    x.add_(w)
    return x.sin(), w.cos()


def given(results):
    def backend(gm, examples):
        return lambda *inputs: results

    return backend


def made_of(function, results):
    return capture.optimize(given(results))(function)(X.clone(), X)


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
    "a limit that is no number": (
        lambda: capture.optimize(recompile_limit="a"),
        "option recompile_limit is an integer",
    ),
    "a number for None": (lambda: capture.optimize(dynamic="x"), "option dynamic is True or False or None, not 'x'"),
    "options as a mapping": (
        lambda: capture.optimize(options={"nopython": True}),
        "give capture.Options(nopython=True)",
    ),
    "too few results": (
        lambda: made_of(function, ()),
        "the backend given.<locals>.backend made of a graph of function",
    ),
    "too many results": (lambda: made_of(function, (X, X)), "has to return the tensor of its graph: too many values"),
    "no result": (lambda: made_of(function, None), "has to return the tensor of its graph: cannot unpack non-iterable"),
    "a number for two": (lambda: made_of(two, 3), "has to return a sequence of the 2 values of its graph: cannot"),
    "one of two": (lambda: made_of(two, [X]), "of its graph: not enough values to unpack (expected 2, got 1)"),
    "none after a change": (lambda: made_of(changing, []), "has to return a sequence of the 2 values of its graph"),
    "a backend of another shape": (lambda: capture.optimize(lambda gm: gm)(function)(X, X), "the backend failed on"),
    "a backend that returns nothing": (lambda: capture.optimize(print)(function)(X, X), "NoneType, which cannot be"),
}


@pytest.mark.without_graphs("there is none to export", cases=["no graph"])
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_a_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises((TypeError, capture.CaptureError)) as raised:
        mistake()
    assert sentence in str(raised.value)


OPTIONS = typing.get_type_hints(capture.Options)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("wrong", ["yes", 1, 1.5, True, None, [8]], ids=repr)
def test_an_option_of_another_type_says_which_it_is(name, wrong):
    if type(wrong) in (typing.get_args(OPTIONS[name]) or (OPTIONS[name],)):
        return
    with pytest.raises(TypeError, match=f"^option {name} is ") as raised:
        capture.Options(**{name: wrong})
    assert str(raised.value).endswith(f", not {wrong!r}")


def test_nothing_is_being_handled_after_results_that_cannot_be_taken_apart():
    def caller(x):
        with contextlib.suppress(capture.BackendError):
            made_of(two, [x])
        return sys.exc_info()

    assert caller(X) == (None, None, None)
    with pytest.raises(capture.BackendError) as raised:
        made_of(two, [X])
    assert raised.value.__context__ is None
