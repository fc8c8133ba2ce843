"""NaN and infinity among the elements give what they give in eager where sizes are symbols, too."""

import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import compile_api

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of the operators, and of functions left to eager
    pytest.mark.without_graphs("sizes that only the data tells are left to eager", cases="some"),
]
FAMILIES = ("empty", "linalg", "jiterator", "lu", "eig", "svd", "qr", "cholesky", "inverse", "det", "ormqr", "solve")
# What NaN or inf makes of these is chance in eager, or another one's as docs/faq.md says.
DIFFER = ("lowrank", "native_batch_norm", "interpolate", "upsample_bilinear", "polynomial", "matrix_exp")
OPERATORS = [
    op for op in op_db if torch.float32 in op.dtypes and not any(name in op.name for name in (*FAMILIES, *DIFFER))
]
MARGIN = next(op for op in OPERATORS if op.name == "nn.functional.multi_margin_loss")


def spoilt(value, number):
    """A copy with such a number in each fifth place."""
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32 or value.layout != torch.strided:
        return value
    copy = value.detach().clone(memory_format=torch.contiguous_format)
    copy.view(-1)[::5] = number
    return copy


def results(function, given):
    torch.manual_seed(0)
    return [each for each in tree_leaves(function(*given)) if isinstance(each, torch.Tensor)]


def check(op, number, backend):
    for sample in list(op.sample_inputs("cpu", torch.float32))[:3]:
        given = tree_map(lambda value: spoilt(value, number), (sample.input, list(sample.args), dict(sample.kwargs)))
        try:
            expected = results(lambda input, args, kwargs: op(input, *args, **kwargs), given)
        except (RuntimeError, ValueError, TypeError):
            continue
        compile_api.reset()
        f = compile_api.compile(lambda input, args, kwargs: op(input, *args, **kwargs), backend=backend, dynamic=True)
        torch.testing.assert_close(results(f, given), expected, equal_nan=True, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("number", [float("nan"), float("inf")], ids=["nan", "inf"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_odd_numbers_give_what_they_give_in_eager(backend, number):
    for op in [MARGIN, *random.sample(OPERATORS, 12)]:
        check(op, number, backend)
