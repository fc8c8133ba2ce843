"""Checkpoints in captured code: one graph, eager's gradients, and activations that are not kept."""

import copy
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import capture


class Layered(torch.nn.Module):
    def __init__(self, *, reentrant=False, nested=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.norm = torch.nn.BatchNorm1d(8)
        self.reentrant, self.nested = reentrant, nested

    def block(self, x, *, layer, scale=1.0):
        y = layer(x) * scale
        if self.nested:
            y = checkpoint(torch.nn.functional.gelu, y, use_reentrant=self.reentrant)
        return y.sin(), torch.nn.functional.dropout(y, 0.5)

    def forward(self, x):
        for layer in self.layers:
            one, other = checkpoint(lambda t, layer=layer: self.block(t, layer=layer), x, use_reentrant=self.reentrant)
            x = one + other.relu()
        return self.norm(x)


def step(model, call):
    torch.manual_seed(3)
    x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
    loss = call(x).square().sum()
    loss.backward()
    return [loss, x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


@pytest.mark.parametrize(("reentrant", "nested"), [(False, False), (False, True), (True, False)])
def test_gradients_are_eagers_and_nothing_breaks(reentrant, nested, same):
    model = Layered(reentrant=reentrant, nested=nested)
    other = copy.deepcopy(model)
    found = step(other, capture.optimize("eager", nopython=True)(other))
    same([t.detach() for t in step(model, model)], [t.detach() for t in found])


def kept_for_backward(call):
    kept = set()

    def pack(tensor):
        kept.add(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call(torch.randn(4, 8, requires_grad=True))
    return len(kept)


def test_what_is_computed_inside_is_not_kept():
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(4)))
    plain = capture.optimize("eager")(lambda x: model(x).sum())
    thrifty = capture.optimize("eager")(lambda x: checkpoint_sequential(model, 4, x, use_reentrant=False).sum())
    assert kept_for_backward(thrifty) < kept_for_backward(plain)


def test_without_gradients_nothing_is_to_be_run_again():
    with torch.no_grad():
        seen = capture.explain(Layered())(torch.ones(4, 8))
    assert "checkpoint" not in seen.graphs[0].operators


def test_a_tensor_that_leaves_by_another_way_is_a_result_too(check):
    def function(x):
        seen = []

        def inner(t):
            seen.append(t * 2)
            return t.sin()

        return checkpoint(inner, x, use_reentrant=False) + seen[0].sum()

    check(function, torch.ones(3, requires_grad=True))


def test_effects_on_older_objects_are_cpythons(check):
    def inner(t, seen):
        seen.append(len(seen))
        return t.sin()

    def function(x, seen):
        return checkpoint(inner, x * 1, seen, use_reentrant=False) + 1

    check(function, torch.ones(3, requires_grad=True), [], graphs=2, breaks=1)


def test_a_region_that_goes_backward_is_run_by_cpython():
    """It would be run again within its own backward, and what it changes with it."""

    def program(x, flips, w):
        def inner(t):
            flips.logical_not_()
            w.square().mean().backward()
            return t * 2

        return checkpoint(inner, x, use_reentrant=False)

    def run(function):
        x, flips, w = torch.ones(3, requires_grad=True), torch.tensor([True]), torch.ones(3, requires_grad=True)
        return function(x, flips, w), flips, w.grad

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = run(capture.optimize("eager")(program))
    assert all(map(torch.equal, actual, run(program)))


@pytest.mark.parametrize("asked", ["grad", "inputs", "other"])
def test_torch_refuses_chosen_gradients_past_a_reentrant_checkpoint(asked):
    def step(w, v):
        loss = (checkpoint(torch.tanh, w, use_reentrant=True) + v).sum()
        try:
            if asked == "inputs":
                loss.backward(inputs=[w])
            else:
                return torch.autograd.grad(loss, [w] if asked == "grad" else [v])
        except RuntimeError as error:
            return str(error)

    leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
    assert str(capture.optimize("eager", strict=True)(step)(*leaves)) == str(step(*leaves))
