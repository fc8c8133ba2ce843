"""NaN and infinity among the elements give what they give in eager where sizes are symbols, too."""

import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import compile_api

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of the operators, and of functions left to eager
    pytest.mark.without_graphs("data-dependent sizes are left to eager", cases="some"),
]
FAMILIES = ("empty", "linalg", "jiterator", "lu", "eig", "svd", "qr", "cholesky", "inverse", "det", "ormqr", "solve")
# Eager draws, does not end, or makes a degree of NaN, which is any number.
LEFT_OUT = (*FAMILIES, "lowrank", "matrix_exp", "polynomial")
OPERATORS = [op for op in op_db if torch.float32 in op.dtypes and not any(name in op.name for name in LEFT_OUT)]
MARGIN = next(op for op in OPERATORS if op.name == "nn.functional.multi_margin_loss")
# Where some are infinite, as docs/faq.md says; batch norm by the default backend.
DIFFER = [
    ("nn.functional.interpolate", "linear", "aot_eager"),
    ("nn.functional.interpolate", "bilinear", "aot_eager"),
    ("nn.functional.interpolate", "trilinear", "aot_eager"),
    ("nn.functional.upsample_bilinear", "", "aot_eager"),
    ("native_batch_norm", "", "inductor"),
    ("_native_batch_norm_legit", "", "inductor"),
]


def name_of(op):
    return op.name, op.variant_test_name


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
    told = {each[:2] for each in DIFFER} if number == float("inf") else ()
    for op in [MARGIN, *random.sample(OPERATORS, 12)]:
        if name_of(op) not in told:
            check(op, number, backend)


@pytest.mark.parametrize(("name", "variant", "backend"), DIFFER)
def test_those_that_differ_are_told_of(name, variant, backend):
    """Take it off the list, and out of the documentation, where it does no more."""
    op = next(op for op in OPERATORS if name_of(op) == (name, variant))
    with pytest.raises(AssertionError):
        check(op, float("inf"), backend)
