"""Programs of torch.export given to the engine alone: called as they are, with what they hold and what they change."""

import warnings

import pytest
import torch
from torch import nn

import inductor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("scale", torch.full((3,), 2.0), persistent=False)
        self.constant = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x, *, shift, more):
        self.calls.add_(1)
        x.mul_(2)
        result = self.linear(x) * self.scale + shift * self.constant + more[0]
        return {"result": result, "rest": [x.sum(), (3, None, x.shape[0])], "calls": self.calls + 0}


def arguments(length=4):
    torch.manual_seed(length)
    return (torch.randn(length, 3),), {"shift": torch.randn(3), "more": (torch.randn(1), torch.randn(2))}


def model():
    torch.manual_seed(0)
    return Model()


def exported(*, decomposed, varying=False):
    args, kwargs = arguments()
    sizes = {"x": {0: torch.export.Dim("batch", min=2, max=8)}, "shift": None, "more": (None, None)}
    program = torch.export.export(model(), args, kwargs, dynamic_shapes=sizes if varying else None)
    if not decomposed:
        return program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch copies trees in a way that it says is deprecated
        return program.run_decompositions()


BOTH = pytest.mark.parametrize("decomposed", [False, True], ids=["as exported", "taken apart"])


@BOTH
@pytest.mark.parametrize("varying", [False, True], ids=["one size", "any size"])
def test_a_program_is_called_as_it_is(decomposed, varying):
    program = exported(decomposed=decomposed, varying=varying)
    reference, compiled = model(), inductor.compile(program)
    with torch.no_grad():
        for length in (4, 4, 7) if varying else (4, 4):
            (x,), kwargs = arguments(length)
            (y,), _ = arguments(length)
            torch.testing.assert_close(compiled(x, **kwargs), reference(y, **kwargs))
            torch.testing.assert_close(x, y)  # which the program writes
    assert program.state_dict["calls"] == (3 if varying else 2)
    assert compiled.report.kernels


def test_named_arguments_come_in_any_order():
    compiled = inductor.compile(exported(decomposed=True))
    (x,), kwargs = arguments()
    with torch.no_grad():
        first = compiled(x.clone(), shift=kwargs["shift"], more=kwargs["more"])
        second = compiled(x.clone(), more=kwargs["more"], shift=kwargs["shift"])
    torch.testing.assert_close(first["result"], second["result"])


def test_a_program_is_trained_elsewhere_and_seen_here():
    model = nn.Linear(3, 2)
    compiled = inductor.compile(torch.export.export(model, (torch.ones(1, 3),)))
    with torch.no_grad():
        model.weight.mul_(2)
        torch.testing.assert_close(compiled(torch.ones(1, 3)), model(torch.ones(1, 3)))


def mistakes():
    (x,), kwargs = arguments()
    yield "arguments", lambda c: c(x, x, **kwargs), inductor.BadCall, "exported for arguments .* and called with"
    yield "names", lambda c: c(x, shift=x), inductor.BadCall, r"arguments \(\*, shift=\*, more=\(\*, \*\)\)"
    yield "none", lambda c: c(), inductor.BadCall, "called with \\(\\)"
    yield "too long", lambda c: c(torch.ones(9, 3), **kwargs), inductor.BadInput, "has 9 elements along axis 0"
    yield "too short", lambda c: c(torch.ones(1, 3), **kwargs), inductor.BadInput, "at least 2 and at most 8"
    yield "width", lambda c: c(torch.ones(4, 5), **kwargs), inductor.BadInput, "was compiled for"
    yield "not a tensor", lambda c: c(3, **kwargs), inductor.BadCall, "is the int 3; give a tensor"
    yield "gradient", lambda c: c(x.requires_grad_(), **kwargs), inductor.BadInput, "computes no gradients"


@pytest.mark.filterwarnings("ignore:parameters of graph_")
@pytest.mark.parametrize("name", [name for name, *_ in mistakes()])
def test_a_mistaken_call_is_told_in_a_sentence(name):
    _, call, error, sentence = next(each for each in mistakes() if each[0] == name)
    compiled = inductor.compile(exported(decomposed=True, varying=True))
    with pytest.raises(error, match=sentence):
        call(compiled)


def test_parameters_that_require_grad_are_told_of_once():
    compiled = inductor.compile(torch.export.export(nn.Linear(3, 2), (torch.ones(1, 3),)))
    with pytest.warns(UserWarning, match="parameters of graph_.* require grad"):
        compiled(torch.ones(1, 3))
    compiled(torch.ones(1, 3))
