"""Every operator that torch has samples for: values and gradients as in eager.

By default one sample of each operator in float32; `--all-samples` runs all of them in every dtype (marked slow).
"""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import aotgrad

DATA_DEPENDENT = "the size of the result depends on values"
UNINITIALISED = "eager itself returns uninitialised memory"
EXCLUDED = {}


def inputs_of(sample):
    return [sample.input, *sample.args], sample.kwargs


def gradients(outputs, leaves):
    results = [o for o in pytree.tree_leaves(outputs) if isinstance(o, torch.Tensor) and o.requires_grad]
    if not results or not leaves:
        return ()
    return torch.autograd.grad(results, leaves, [torch.ones_like(r) for r in results], allow_unused=True)


def evaluate(fn, sample):
    torch.manual_seed(0)
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), inputs_of(sample)
    )
    leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
    outputs = fn(*args, **kwargs)
    grads = gradients(outputs, leaves)
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (outputs, grads))


def check(op, sample):
    expected = evaluate(op.op, sample)
    ours = evaluate(aotgrad.function(op.op, forward=aotgrad.run_eagerly), sample)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", op_db, ids=name_of)
def test_first_sample(op):
    if name_of(op) in EXCLUDED:
        pytest.skip(EXCLUDED[name_of(op)])
    dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else next(iter(sorted(op.dtypes, key=str)))
    differentiable = op.supports_autograd and dtype.is_floating_point
    sample = next(iter(op.sample_inputs("cpu", dtype, requires_grad=differentiable)))
    check(op, sample)
