"""Operators that write to a tensor, in place or by `out=`, are none of autocast's: they compute in the types they are
given, as in eager.
"""

import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import compile_api

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the operators, and of functions left to eager

# What these write is not determined, and `equal` gives no tensor.
UNDETERMINED = {"equal", "empty", "empty_like", "new_empty", "empty_strided", "fft.ihfft2", "fft.ihfftn"}
OPERATORS = [
    op
    for op in op_db
    if torch.float32 in op.dtypes and (op.supports_out or op.inplace_variant) and op.name not in UNDETERMINED
]
PRODUCTS = {
    "addmm_": lambda a, o: o.addmm_(a, a),
    "addbmm_": lambda a, o: o.addbmm_(a[None], a[None]),
    "baddbmm_": lambda a, o: o[None].baddbmm_(a[None], a[None]),
    "mm": lambda a, o: torch.mm(a, a, out=o),
    "bmm": lambda a, o: torch.bmm(a[None], a[None], out=o[None]),
    "matmul": lambda a, o: torch.matmul(a, a, out=o),
    "linear": lambda a, o: torch._C._nn.linear(a, a, out=o),
    "pinv": lambda a, o: torch.linalg.pinv(a, out=o),
    "multi_dot": lambda a, o: torch.linalg.multi_dot([a, a], out=o),
    "chain_matmul": lambda a, o: torch.chain_matmul(a * 2, a, out=o),
}


def copied(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def values_of(program, given):
    """What a program gives under autocast and leaves in its arguments, or the type of its error."""
    given = tree_map(copied, given)
    torch.manual_seed(0)
    try:
        with torch.autocast("cpu"):
            result = program(*given)
    except (RuntimeError, NotImplementedError, TypeError, IndexError) as error:
        return type(error)
    return [each for each in tree_leaves((given, result)) if isinstance(each, torch.Tensor)]


def writers(op, sample):
    """Programs that write what the operator gives, with their arguments."""
    given = (sample.input, list(sample.args), dict(sample.kwargs))
    if op.inplace_variant is not None:
        yield lambda input, args, kwargs: op.inplace_variant(input, *args, **kwargs), given
    if op.supports_out:
        out = tree_map(torch.empty_like, op(sample.input, *sample.args, **sample.kwargs))
        yield lambda input, args, kwargs, out: op(input, *args, **kwargs, out=out), (*given, out)


def assert_as_eager(program, given, backend):
    expected = values_of(program, given)
    compile_api.reset()
    found = values_of(compile_api.compile(program, backend=backend), given)
    if isinstance(expected, type):
        assert found is expected
    else:
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_products_that_write_are_computed_in_their_own_type(product, backend):
    assert_as_eager(PRODUCTS[product], (torch.randn(5, 5), torch.ones(5, 5)), backend)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_any_operator_that_writes_does_as_in_eager(backend):
    for op in random.sample(OPERATORS, 12):
        for sample in list(op.sample_inputs("cpu", torch.float32))[:2]:
            for program, given in writers(op, sample):
                assert_as_eager(program, given, backend)
