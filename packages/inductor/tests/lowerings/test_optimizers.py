"""The optimizers of torch, over lists of tensors, as kernels: nothing is left to torch's operators."""

from unittest import mock

import pytest
import torch
from compiled import check, fallbacks
from torch.utils import _pytree as pytree

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"capturable": True, "amsgrad": True},
    "AdamW": {"capturable": True},
    "NAdam": {"capturable": True},
    "RAdam": {"capturable": True},
    "Adamax": {"capturable": True},
    "Adadelta": {"capturable": True},
    "RMSprop": {"capturable": True, "centered": True, "momentum": 0.9},
    "ASGD": {"capturable": True},
    "Rprop": {"capturable": True},
    "Adagrad": {},
}
COUNT = 3


def step_of(name):
    """One step as a function of parameters, gradients and state, which it changes; and these tensors."""
    torch.manual_seed(0)
    kind, options = getattr(torch.optim, name), {**OPTIMIZERS[name], "foreach": True}
    parameters = [torch.nn.Parameter(torch.randn(4, number + 1)) for number in range(COUNT)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = kind(parameters, **options)
    with mock.patch("torch.compiler.is_compiling", return_value=True):  # else what can be captured is limited to GPUs
        optimizer.step()
    leaves, structure = pytree.tree_flatten(list(optimizer.state.values()))
    places = [number for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def step(*tensors):
        weights, grads, state = tensors[:COUNT], tensors[COUNT : 2 * COUNT], iter(tensors[2 * COUNT :])
        fresh = kind([torch.nn.Parameter(torch.zeros(1))], **options)
        fresh.state.clear()
        fresh.param_groups[0]["params"] = list(weights)
        filled = [next(state) if number in places else leaf for number, leaf in enumerate(leaves)]
        for weight, grad, own in zip(weights, grads, pytree.tree_unflatten(filled, structure), strict=True):
            weight.grad, fresh.state[weight] = grad, own
        with mock.patch("torch.compiler.is_compiling", return_value=True):
            kind.step.__wrapped__(fresh)
        return []

    grads = [parameter.grad for parameter in parameters]
    return step, [*[p.detach().clone() for p in parameters], *grads, *[leaves[number] for number in places]]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_kernels_alone(name):
    step, tensors = step_of(name)
    assert fallbacks(step, *tensors) == []
    check(step, *tensors, atol=1e-6, rtol=1e-5)


def test_gradients_are_clipped_by_kernels():
    def clip(*grads):
        norms = torch._foreach_norm(list(grads))
        total = torch.linalg.vector_norm(torch.stack(norms))
        torch._foreach_mul_(list(grads), (1.0 / (total + 1e-6)).clamp(max=1.0))
        return total

    tensors = [torch.randn(5, 3), torch.randn(7), torch.randn(2, 2, 2)]
    assert fallbacks(clip, *tensors) == []
    check(clip, *tensors, atol=1e-6, rtol=1e-5)
