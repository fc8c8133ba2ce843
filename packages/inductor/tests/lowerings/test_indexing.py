"""Reading and writing at places read from tensors, against eager."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, fallbacks, program_of
from reference import run_program

from inductor.ir.index import ONE
from inductor.ir.program import Allocate

IDX = torch.tensor([0, 2, -1])
PICK = torch.randint(0, 7, (5, 3))
CASES = {
    "index": (lambda x, k: (x[k], x[:, k], x[k, k], x[k][:, k] + 1, x[None, :, k]), IDX),
    "index by matrices": (lambda x, k: (x[k], x[:, k]), torch.tensor([[0, 1], [3, -2]])),
    "index by int32": (lambda x, k: x[k], IDX.int()),
    "index_select": (lambda x, k: (x.index_select(0, k), x.index_select(1, k) * 2), IDX.abs()),
    "index of a value": (lambda x, k: (x * 2).exp()[k], IDX),
    "gather": (lambda x, k: (x.gather(1, k), (x + 1).gather(1, k) * 2), PICK),
    "take along": (lambda x, k: torch.take_along_dim(x, x.argsort(1), 1), PICK),
    "embedding": (lambda x, k: F.embedding(k, x), torch.tensor([[0, 1], [4, 2]])),
    "embedding backward": (
        lambda x, k: torch.ops.aten.embedding_dense_backward(x[:4].view(2, 2, 7), k, 6, 1, False),
        torch.tensor([[0, 1], [4, 0]]),
    ),
    "scatter_add": (lambda x, k: x.scatter_add(1, k, x[:, :3] * 2), PICK),
    "scatter": (lambda x, k: x.scatter(1, k, 1.0), PICK),
    "one place per row": (
        lambda x, k: (x.scatter(1, k, 2.0), x.scatter(1, k, x[:, :1] * 3), (x > 0).scatter(1, k, True)),
        torch.tensor([[0], [6], [3], [3], [1]]),
    ),
    "index_put": (lambda x, k: (x.index_put((k,), x[:3], accumulate=True), x.index_put((k,), x[:3])), IDX.abs()),
    "index_add": (lambda x, k: x.index_add(0, k, x[:3]), IDX.abs()),
    "index_put of doubles": (lambda x, k: x.index_put((k,), x[:3]), torch.tensor([1, 3, 1])),
    "index_copy and fill": (lambda x, k: (x.index_copy(1, k, x[:, :3]), x.index_fill(0, k, 2.0)), IDX.abs()),
    "index_fill from the end": (lambda x, k: (x.index_fill(0, k, 2.0), x.index_fill(-1, k, x[0, 0])), IDX),
    "index_add scaled": (lambda x, k: x.index_add(1, k, x[:, :3], alpha=0.5), IDX.abs()),
    "scatter of a tensor": (lambda x, k: x.scatter(1, k, x[:, :3] * 2), PICK),
    "scatter numbers": (lambda x, k: torch.tensor(2.0).scatter(0, k, torch.tensor(3.0)), torch.tensor(0)),
    "an axis of one": (lambda x, k: (x[:, :1].gather(1, k), x[:1][k[0]], x[:1].index_select(0, k[0])), PICK * 0),
    "set where": (lambda x, k: x.index_put((x > 0,), torch.tensor(5.0)), IDX),
    "arange index": (lambda x, k: x[torch.arange(3), k], IDX),
    "bucketize": (lambda x, k: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), IDX),
    "bucketize to the right": (lambda x, k: torch.bucketize(x.round(), k.sort()[0].float(), right=True), IDX),
    "bucketize without boundaries": (lambda x, k: torch.bucketize(x, x[0, :0], out_int32=True), IDX),
    "bucketize of a number": (lambda x, k: torch.bucketize(x.sum(), x[0].sort()[0]), IDX),
    "take": (lambda x, k: torch.take(x, k), torch.tensor([[0, -1], [34, 3]])),
}


@pytest.mark.parametrize("name", CASES)
def test_indexing(name):
    function, index = CASES[name]
    check(function, torch.randn(5, 7), index)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_scatter_reduce(reduce, include_self, dtype):
    function = lambda x, k: x.scatter_reduce(1, k, x[:, :3] + 1, reduce, include_self=include_self)
    x = (torch.rand(5, 7) * 3 + 1).to(dtype)
    check(function, x, PICK, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
    assert fallbacks(function, x, PICK) == (["aten.scatter_reduce.two"] if (reduce, dtype) == INTEGER_MEAN else [])


INTEGER_MEAN = "mean", torch.int64


def test_a_place_outside_an_axis_of_one_element_raises():
    x = torch.randn(1, 7)
    program = program_of(lambda x, k: x[k] + 1, x, torch.tensor([0, 0]))
    with pytest.raises(IndexError):
        run_program(program, [x, torch.tensor([0, 1])])


def test_places_outside_raise():
    x = torch.randn(5, 7)
    program = program_of(lambda x, k: x[k] + 1, x, torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        run_program(program, [x, torch.tensor([0, 5])])


READS = {
    "index": lambda x, k: x[k],
    "index of columns": lambda x, k: x[:, k],
    "index of both": lambda x, k: x[torch.zeros_like(k), k],
    "index_select": lambda x, k: x.index_select(1, k),
    "gather": lambda x, k: x.gather(1, k[None]),
    "embedding": lambda x, k: F.embedding(k, x),
    "take": torch.take,
    "nll_loss": lambda x, k: F.nll_loss(x[:1], k),
}
ALIKE = {
    "zeros": lambda x: torch.zeros(3, 3),
    "one": lambda x: x[0, 0].expand(3, 3),
    "one row": lambda x: x[0].expand(3, 3) * 2,
    "one column": lambda x: x[:, :1].expand(3, 3),
    "a condition": lambda x: torch.zeros(3, 3).gt(1).float(),
}


@pytest.mark.parametrize("of", ALIKE)
def test_places_outside_of_what_is_the_same_everywhere_raise(of):
    """No element is read there that is not known already, but the place is looked at."""
    x, inside, outside = torch.randn(3, 3), torch.tensor([2]), torch.tensor([70])
    for name, read in READS.items():
        program = program_of(lambda x, k: READS[name](ALIKE[of](x), k), x, inside)
        torch.testing.assert_close(run_program(program, [x, inside])[0], read(ALIKE[of](x), inside))
        with pytest.raises(IndexError):
            run_program(program, [x, outside])


def test_gathers_and_scatters_are_no_fallback():
    assert fallbacks(lambda x, k: x.scatter(1, k, 1.0).scatter_add(1, k, x), torch.randn(5, 7), PICK) == []
    assert fallbacks(lambda x, k: x.index_put((k,), x[:3]).index_add(0, k, x[:3]), torch.randn(5, 7), IDX) == []
    assert fallbacks(lambda x, k: x[k].relu(), torch.randn(5, 7), IDX) == []


def test_what_a_gather_picks_is_computed_alone_where_little_is_picked():
    def one_per_row(x, k):
        return (x - x.logsumexp(1, keepdim=True)).gather(1, k)

    inputs = torch.randn(5, 700), torch.randint(0, 700, (5, 1))
    made = [step.buffer for step in program_of(one_per_row, *inputs).steps if isinstance(step, Allocate)]
    assert all(buffer.sizes[-1] == ONE for buffer in made)
    check(one_per_row, *inputs)


@pytest.mark.parametrize("name", ["index_copy", "index_add"])
def test_slices_are_not_counted_from_the_end(name):
    function = lambda x, k: getattr(x, name)(0, k, x[:3])
    check(function, torch.randn(5, 3), torch.tensor([4, 0, 2]))
    with pytest.raises(IndexError):
        run_program(program_of(function, torch.randn(5, 3), IDX), [torch.randn(5, 3), IDX])
