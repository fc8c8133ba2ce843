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


PICKED = {
    "scatter": lambda x, index, number: torch.scatter(x, -1, index, number),
    "scatter_": lambda x, index, number: x.clone().scatter_(-1, index, number),
    "index_fill": lambda x, index, number: x.index_fill(-1, index[0], number),
    "index_fill_": lambda x, index, number: x.clone().index_fill_(-1, index[0], number),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PICKED)
def test_a_number_is_refused_by_what_it_is_written_to_and_not_by_positions(name, backend):
    def program(x, index, w):
        return PICKED[name](x * w, index, float("-inf")).softmax(-1).square().sum()

    def outcome(function, seed):
        torch.manual_seed(seed)
        w = torch.rand(3).requires_grad_()
        loss = function(torch.rand(2, 3), torch.randint(3, (2, 1)), w)
        loss.backward()
        return loss.detach(), w.grad

    compiled = compile_api.compile(program, backend=backend, fullgraph=True)
    for seed in range(3):
        torch.testing.assert_close(outcome(compiled, seed), outcome(program, seed))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PICKED)
def test_whole_numbers_refuse_a_number_wherever_positions_are(name, backend):
    compiled = compile_api.compile(lambda x, index, by: PICKED[name](x + 0, index, by) * 2, backend=backend)
    index = torch.tensor([[1]])
    for x, by in ((torch.ones(1, 2, dtype=torch.int64), 3.0), (index, float("inf")), (index.to(torch.uint8), 300)):
        found, expected = (outcome_of(f, x, index, by) for f in (compiled, lambda x, i, by: PICKED[name](x, i, by) * 2))
        assert str(found) == str(expected)


def outcome_of(function, x, index, number):
    try:
        return function(x, index % x.shape[-1], number)
    except RuntimeError as error:
        return str(error)
