"""A tensor gets other data (`w.data = ...`) between forward and backward: autograd kept the old ones where it saved a
view of it, and finds the new ones where it saved the tensor itself."""

import itertools

import pytest
import torch
from torch.nn import functional as nnf

import compile_api


def linear(x, w):
    y = nnf.linear(x, w)
    w.data = w.data.clamp(-0.1, 0.1)
    return y


def of_a_result(x, w):
    h = x * 2
    y = h * w
    h.data = torch.zeros_like(h)
    return y


def of_a_part(x, w):
    y = x @ w[:1].t()
    w.data = torch.zeros_like(w)
    return y


def after_a_backward(x, w):
    nnf.linear(x, w).sum().backward()
    w.data = w.data - 0.1 * w.grad
    return x @ w.t()


PROGRAMS = {each.__name__: each for each in (linear, of_a_result, of_a_part, after_a_backward)}
BACKENDS = ("eager", "aot_eager", "inductor")
KEPT = [
    "-".join(each) for each in itertools.product(PROGRAMS.keys() - {"after_a_backward"}, BACKENDS, ("False", "True"))
]


@pytest.mark.without_graphs("CPython runs a frame that gives other data to what autograd has kept", cases=KEPT)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_eagers(name, backend, inside):
    def step(x, w):
        y = PROGRAMS[name](x, w)
        if inside:
            y.sum().backward()
        return y

    found = []
    for run in (step, compile_api.compile(step, backend=backend)):
        x, w = torch.ones(2, 2, requires_grad=True), torch.full((2, 2), 3.0, requires_grad=True)
        y = run(x, w)
        if not inside:
            y.sum().backward()
        found.append([each.tolist() for each in (y, w, x.grad, w.grad)])
    torch.testing.assert_close(found[1], found[0])


def test_a_step_that_moves_its_weights_behind_its_backward_is_compiled():
    explained = compile_api.explain(after_a_backward)(torch.ones(2, 2), torch.ones(2, 2, requires_grad=True))
    assert explained.graph_count == 2
