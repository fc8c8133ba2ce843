"""Torch's kernels are asked which types they take, with operands of few elements: no position lies outside of them."""

import pytest
import torch

from aotgrad.pre_autograd import mismatched_operands

NAMES = sorted(name for name in dir(torch.ops.aten) if name.startswith(("max_pool", "adaptive_max_pool", "fractional")))
OTHERS = ["gather", "scatter", "index_add", "index_copy", "take", "put", "embedding", "max_unpool2d", "segment_reduce"]


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
@pytest.mark.parametrize("sizes", [(1,), (3, 1, 1), (2, 5, 1, 1), (4, 1, 1, 1, 1)])
@pytest.mark.parametrize("name", [*NAMES, *OTHERS])
def test_positions_are_those_of_elements(name, sizes, kind):
    asked = []

    def kernel(grad, x, indices):
        asked.append((x, indices))

    given = (
        torch.ones(sizes, dtype=torch.float64),
        torch.ones(sizes, dtype=torch.float64),
        torch.zeros(sizes, dtype=kind),
    )
    mismatched_operands._refuse_types(kernel, name, given, {})
    assert asked
    assert all(indices.max() < min(x.shape) for x, indices in asked)


@pytest.mark.parametrize("sizes", [(0,), (2, 0, 1)])
def test_where_there_is_no_element_nothing_is_asked(sizes):
    given = torch.ones(sizes), torch.zeros(sizes, dtype=torch.int64)
    mismatched_operands._refuse_types(pytest.fail, "gather", given, {})


def test_whole_numbers_are_divided_all_the_same():
    x = torch.arange(1, 5)
    for operator in (torch.floor_divide, torch.remainder, torch.fmod):
        mismatched_operands._refuse_types(operator, operator.__name__, (x, x), {})
