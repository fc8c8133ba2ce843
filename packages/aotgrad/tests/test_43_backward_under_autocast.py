"""Backward called within a region of autocast computes what eager's formulas compute there: in halves, what autocast
casts.

Every differentiable operator of torch's samples, with forward outside of autocast; a run draws some of them, and
``SWEEPS=all`` runs all.
"""

import os
import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import aotgrad

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the operators

OPERATORS = {op.full_name: op for op in op_db if op.supports_autograd and torch.float32 in op.dtypes}

# Between the operators of one formula eager keeps halves, where a graph has the type that it was traced with.
ROUNDED = {
    *("addmm", "addbmm", "baddbmm", "lu", "nn.functional.bilinear", "nn.functional.linear_cross_entropy", "ormqr"),
    *("pinverse", "linalg.eigh", "linalg.householder_product", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu"),
    "linalg.pinv",
}


def gradients(function, leaves, *, create=False, forward_too=False):
    """The gradients that come of a backward within autocast, and those of their squares."""
    torch.manual_seed(0)
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    with torch.autocast("cpu", torch.bfloat16, enabled=forward_too):
        outputs = [each for each in pytree.tree_leaves(function(*leaves)) if isinstance(each, torch.Tensor)]
    outputs = [each for each in outputs if each.requires_grad]
    tangents = [torch.linspace(0.5, 1.5, each.numel()).reshape(each.shape).to(each.dtype) for each in outputs]
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(outputs, leaves, tangents, allow_unused=True, create_graph=create)
        squares = [each.pow(2).sum() for each in found if each is not None and each.requires_grad]
        return (*found, *(torch.autograd.grad(squares, leaves, allow_unused=True) if squares else ()))


def differing(op):
    """The samples for which a compiled program differs from eager, and how many there were."""
    wrong, count = [], 0
    for sample in list(op.sample_inputs("cpu", torch.float32, requires_grad=True))[:3]:
        flat, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        places = [i for i, each in enumerate(flat) if isinstance(each, torch.Tensor) and each.requires_grad]
        if not places:
            continue

        def program(*leaves, flat=flat, places=places, structure=structure):
            given = [leaves[places.index(i)] if i in places else each for i, each in enumerate(flat)]
            input, args, kwargs = pytree.tree_unflatten(given, structure)
            return op(input, *args, **kwargs)

        leaves = [flat[i] for i in places]
        try:
            expected = gradients(program, leaves)
            torch.testing.assert_close(gradients(program, leaves), expected, equal_nan=True)
        except (RuntimeError, NotImplementedError, AssertionError):
            continue
        count += 1
        try:
            found = gradients(aotgrad.function(program, forward=aotgrad.run_eagerly), leaves)
            close = {"rtol": 0.1, "atol": 0.1} if op.name in ROUNDED else {}
            torch.testing.assert_close(found, expected, equal_nan=True, **close)
        except aotgrad.Unsupported:
            continue
        except (AssertionError, RuntimeError) as error:
            wrong.append(str(error)[:200])
    return wrong, count


def test_any_operator_goes_back_as_in_eager():
    chosen = list(OPERATORS) if os.environ.get("SWEEPS") == "all" else random.sample(list(OPERATORS), 15)
    for name in chosen:
        wrong, _ = differing(OPERATORS[name])
        assert not wrong, (name, wrong)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, arrives):
        x, w = ctx.saved_tensors
        return arrives @ w.t(), x.t() @ arrives


class Exact(Product):
    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu"))
    backward = staticmethod(torch.amp.custom_bwd(Product.backward, device_type="cpu"))


def without(x, w):
    with torch.autocast("cpu", enabled=False):
        return (x @ w).pow(2)


PROGRAMS = {
    "product": lambda x, w: (x @ w).pow(2).sum(),
    "layers": lambda x, w: (torch.nn.functional.linear((x @ w).relu(), w).softmax(-1) @ w).sin(),
    "convolution": lambda x, w: torch.nn.functional.conv2d(x[None, None], w[None, None, :2, :2]).sin() @ w[:3, :3],
    "attention": lambda x, w: torch.nn.functional.scaled_dot_product_attention(x @ w, x, w),
    "a function of its own": lambda x, w: Product.apply(x.sin(), w).float().pow(2),
    "one that keeps forward's mode": lambda x, w: Exact.apply(x.sin(), w).float().pow(2),
    "a checkpoint": lambda x, w: checkpoint(lambda x, w: (x @ w).sin() @ w, x, w, use_reentrant=False),
    "without autocast": without,
    "several results": lambda x, w: (x @ w, (x @ w).sin() @ w),
    "halves": lambda x, w: (x.bfloat16() @ w.bfloat16()).float() @ w,
}


@pytest.mark.parametrize("forward_too", [False, True])
@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_of_the_mode_in_which_it_is_called(program, create, forward_too, dynamic):
    torch.manual_seed(1)
    leaves = torch.randn(4, 4), torch.randn(4, 4)
    compiled = aotgrad.function(PROGRAMS[program], forward=aotgrad.run_eagerly, dynamic=dynamic)
    for _ in range(2):
        try:
            found = gradients(compiled, leaves, create=create, forward_too=forward_too)
        except aotgrad.Unsupported:  # types are not mixed where sizes vary
            assert (program, forward_too, dynamic) == ("a function of its own", True, True)
            return
        expected = gradients(PROGRAMS[program], leaves, create=create, forward_too=forward_too)
        if not forward_too:
            torch.testing.assert_close(found, expected)
            continue
        for ours, theirs in zip(found, expected, strict=True):  # sums of halves are in another order
            torch.testing.assert_close(ours, theirs, rtol=0.1, atol=0.05 * float(theirs.abs().max()))


def test_one_function_goes_back_in_several_modes():
    leaves = [torch.randn(4, 4), torch.randn(4, 4)]
    compiled = aotgrad.function(PROGRAMS["layers"], forward=aotgrad.run_eagerly)
    for kind, on in ((torch.bfloat16, True), (torch.float16, True), (torch.float16, False), (torch.bfloat16, True)):
        found = []
        for function in (compiled, PROGRAMS["layers"]):
            given = [leaf.clone().requires_grad_() for leaf in leaves]
            result = function(*given).sum()
            with torch.autocast("cpu", kind, enabled=on):
                found.append(torch.autograd.grad(result, given))
        torch.testing.assert_close(*found)


def test_a_backward_whose_products_are_of_halves_already_is_the_one_that_was_compiled():
    made = []

    def compiler(module, example_inputs):
        made.append(module)
        return aotgrad.run_eagerly(module, example_inputs)

    compiled = aotgrad.function(PROGRAMS["product"], forward=compiler)
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        compiled(x, w).backward()
    assert len(made) == 2
    result = aotgrad.function(PROGRAMS["product"], forward=compiler)(x, w)
    with torch.autocast("cpu", torch.bfloat16):
        result.backward()
    assert len(made) == 4
    assert any(node.kwargs == {"dtype": torch.bfloat16} for node in made[3].graph.nodes)
