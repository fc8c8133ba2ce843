"""Types that eager's kernels refuse are refused after a call that was good, too: a version for another type raises."""

import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import compile_api

OTHERS = (torch.int64, torch.int32, torch.bool, torch.uint8, torch.float16, torch.complex64)
# No values, or those of the generator; functions that are compiled, or compile.
LEFT_OUT = ("empty", "new_empty", "jiterator", "normal", "unsafe_", "randint")
OPERATORS = [each for each in op_db if torch.float32 in each.dtypes and not each.name.startswith(LEFT_OUT)]


def as_type(dtype):
    def changed(value):
        is_float = isinstance(value, torch.Tensor) and value.dtype == torch.float32
        return value.detach().to(dtype) if is_float else value

    return changed


def outcome(function, given):
    """The types that a call gives, or the kind of error."""
    try:
        results = function(*given)
    except Exception as error:  # noqa: BLE001 - whatever eager raises: the kind is compared
        return type(error).__name__
    return [each.dtype for each in tree_leaves(results) if isinstance(each, torch.Tensor)]


def differences(operator, backend):
    sample = next(iter(operator.sample_inputs("cpu", torch.float32)))
    given = sample.input, sample.args, sample.kwargs

    def program(x, args, kwargs):
        return operator.op(x, *args, **kwargs)

    for dtype in random.sample(OTHERS, 2):
        compile_api.reset()
        compiled = compile_api.compile(program, backend=backend)
        for kind in (torch.float32, dtype):
            found, expected = (outcome(f, tree_map(as_type(kind), given)) for f in (compiled, program))
            if found != expected:
                yield operator.full_name, kind, found, expected


REFUSED = {
    "max_pool1d": (lambda x: torch.nn.functional.max_pool1d(x, 2), torch.int64),
    "cumsum_": (lambda x: x.clone().cumsum_(0), torch.bool),
    "cumprod_": (lambda x: x.clone().cumprod_(1), torch.bool),
    "hardshrink": (torch.nn.functional.hardshrink, torch.int64),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_type_is_refused_where_sizes_vary(name, backend):
    function, dtype = REFUSED[name]
    compiled = compile_api.compile(lambda x: function(x), backend=backend)
    for size in (4, 6):
        compiled(torch.ones(1, size, size))
    with pytest.raises(NotImplementedError, match="not implemented for"):
        compiled(torch.ones(1, 5, 5, dtype=dtype))


@pytest.mark.without_graphs("an operator may refuse every type", cases="some")
@pytest.mark.filterwarnings("ignore")  # of what is in beta, sparse, deprecated
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_types_that_are_refused(backend):
    assert not [each for operator in random.sample(OPERATORS, 25) for each in differences(operator, backend)]
