"""``torch.func`` within a compiled function: gradients per sample, an ensemble, a Hessian, through all stages."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacfwd, jacrev, stack_module_state, vmap

import compile_api


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


MODEL = net()
PARAMETERS, BUFFERS = stack_module_state([net(), net()])
EMPTY = net().to("meta")


def gradients_per_sample(x, y):
    def loss(parameters, sample, label):
        out = functional_call(MODEL, parameters, (sample.unsqueeze(0),))
        return nn.functional.cross_entropy(out, label.unsqueeze(0))

    parameters = {name: parameter.detach() for name, parameter in MODEL.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)


def ensemble(x, y):
    return vmap(lambda p, b: functional_call(EMPTY, (p, b), (x,)))(PARAMETERS, BUFFERS).mean(0)


def kernel(x, y):
    """Of the tangents of the model's parameters."""
    jacobian = vmap(jacrev(lambda p, sample: functional_call(MODEL, p, (sample,))), (None, 0))
    rows = [part.flatten(2) for part in jacobian(dict(MODEL.named_parameters()), x).values()]
    return sum(torch.einsum("nof,mof->nm", row, row) for row in rows)


def second_derivatives(x, y):
    return vmap(jacfwd(jacrev(lambda sample: MODEL(sample).tanh().sum())))(x)


@pytest.mark.parametrize("function", [gradients_per_sample, ensemble, kernel, second_derivatives])
def test_is_one_graph_with_eagers_values(function):
    x, y = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
    found = compile_api.explain(function)(x, y)
    assert (found.graph_count, found.graph_break_count) == (1, 0)
    torch.testing.assert_close(compile_api.compile(function)(x, y), function(x, y))


def test_training_through_gradients_of_the_input():
    def penalty(model, x):
        slopes = vmap(grad(lambda sample: model(sample).sum()))(x)
        return (slopes.norm(dim=1) - 1).square().mean()

    x, results = torch.randn(5, 4), []
    for step in (penalty, compile_api.compile(penalty, fullgraph=True)):
        model = net()
        step(model, x).backward()
        results.append([p.grad for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(results[1], results[0])
    assert len(results[0]) >= 3
