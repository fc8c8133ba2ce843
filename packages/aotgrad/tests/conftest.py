"""What every test here compares with: the same program run by eager, on clones of the same inputs."""

import copy

import pytest
import torch
from torch.utils import _pytree as pytree

import aotgrad


def clone_inputs(args):
    """Clones that keep leaf-ness, `requires_grad`, strides, and which arguments are one tensor."""
    memo = {}

    def clone(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in memo:
            memo[id(value)] = value.detach().clone().requires_grad_(value.requires_grad)
        return memo[id(value)]

    return pytree.tree_map(clone, args)


def run(fn, args):
    """Outputs, and the gradients of every input that requires grad."""
    torch.manual_seed(0)
    leaves = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    outputs = fn(*args)
    results = [o for o in pytree.tree_leaves(outputs) if isinstance(o, torch.Tensor) and o.requires_grad]
    results = [o for o in results if o.grad_fn is not None or (o.is_leaf and any(o is leaf for leaf in leaves))]
    grads = ()
    if results and torch.is_grad_enabled():
        weights = [torch.linspace(0.5, 1.5, r.numel()).reshape(r.shape).to(r) for r in results]
        grads = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    return outputs, grads


@pytest.fixture
def same_as_eager():
    """`check(fn, *args)` runs `fn` eagerly and compiled, twice, and compares everything that a caller can see.

    `within` may call both of them in a mode.
    """

    def check(fn, *args, times=2, within=lambda fn: fn, **options):
        options = {"forward": aotgrad.run_eagerly, **options}
        compiled = aotgrad.function(fn, **options)
        for _ in range(times):
            ours, theirs = clone_inputs(args), clone_inputs(args)
            (results, grads), (expected, expected_grads) = run(within(compiled), ours), run(within(fn), theirs)
            compare(results, expected)
            compare(grads, expected_grads, strides=False)
            compare(ours, theirs)
        return compiled

    return check


def laid_out(tensor):
    """The strides that matter: those of a dimension of size 1 lead nowhere."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]


def compare(ours, theirs, strides=True):
    ours, theirs = pytree.tree_leaves(ours), pytree.tree_leaves(theirs)
    assert len(ours) == len(theirs)
    for mine, its in zip(ours, theirs, strict=True):
        if isinstance(its, torch.Tensor):
            torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6, equal_nan=True)
            assert (mine.requires_grad, history(mine)) == (its.requires_grad, history(its))
            assert not strides or laid_out(mine) == laid_out(its)
        else:
            assert mine == its
    assert not strides or aliasing(ours) == aliasing(theirs)


def history(tensor):
    """Does autograd follow it?  Torch may forbid every use of a view of something that was changed since."""
    try:
        return "none" if tensor.grad_fn is None else "followed"
    except RuntimeError:
        return "forbidden"


def aliasing(values):
    """Who shares memory with whom, and who is the same object."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    memories = [value.untyped_storage()._cdata for value in tensors]
    objects = [id(value) for value in tensors]
    return [(memories.index(m), objects.index(o)) for m, o in zip(memories, objects, strict=True)]


@pytest.fixture
def graphs_of():
    """`collect(fn, *args)` compiles and returns the graphs that the compiler was given, in order."""

    def collect(fn, *args, backward=True, **options):
        seen = []

        def compiler(gm, example_inputs):
            seen.append(copy.copy(gm.graph))
            return aotgrad.run_eagerly(gm, example_inputs)

        run(aotgrad.function(fn, forward=compiler, **options), clone_inputs(args))
        return seen

    return collect
