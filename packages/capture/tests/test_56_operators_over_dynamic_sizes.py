"""Functions of torch's that take lengths for constants: over six lengths they are two graphs, with eager's results."""

import pytest
import torch
from torch.nn import functional as nnf

import capture

LENGTHS = (7, 9, 12, 5, 30, 11)

MADE = {
    "linspace": lambda x: torch.linspace(0, 1, x.shape[2]) * x,
    "linspace to the length": lambda x: torch.linspace(0, x.shape[2] - 1, x.shape[2] // 2, dtype=torch.float64),
    "linspace between tensors": lambda x: torch.linspace(x[0, 0, 0].detach(), x[0, 0, 1].detach(), steps=x.shape[2]),
    "logspace": lambda x: torch.logspace(0, 2, x.shape[2], base=3.0),
    "hann_window": lambda x: torch.hann_window(x.shape[2], periodic=False) * x,
    "windows of a period": lambda x: (torch.hamming_window(x.shape[2]), torch.blackman_window(x.shape[2] + 1)),
    "kaiser_window": lambda x: torch.kaiser_window(x.shape[2], True, beta=3.0),
    "signal windows": lambda x: torch.signal.windows.gaussian(x.shape[2]) + torch.signal.windows.hann(x.shape[2]),
    "fftfreq": lambda x: torch.fft.fftfreq(x.shape[2]) + torch.fft.rfftfreq(2 * x.shape[2] - 1, d=0.1),
    "tril_indices": lambda x: torch.tril_indices(x.shape[2], x.shape[2], -1),
    "triu_indices": lambda x: torch.triu_indices(3, x.shape[2], 1),
    "combinations": lambda x: torch.combinations(x[0, 0]),
    "combinations of three": lambda x: torch.combinations(x[0, 0], 3, True),
    "one_hot": lambda x: nnf.one_hot(x.argmax(-1), x.shape[2]),
    "histc": lambda x: torch.histc(x.detach(), x.shape[2]),
    "histogram": lambda x: torch.histogram(x.detach(), 4),
    "histogram by edges": lambda x: torch.histogram(x.detach(), torch.arange(3.0, dtype=x.dtype)).bin_edges,
    "geqrf": lambda x: x.detach().geqrf(),
    "geqrf by name": lambda x: torch.geqrf(x.detach()).tau * 2,
}
COMPOSED = {
    "kron alone": lambda x: torch.kron(x[:2], x.detach()),
    "kron": lambda x: torch.kron(x, torch.ones(2, 2)) * torch.kron(x[0, 0], torch.ones(2)),
    "take_along_dim": lambda x: torch.take_along_dim(x, x.argsort(-1), -1) + x.take_along_dim(x.argmax(1, True), 1),
    "take_along_dim flat": lambda x: torch.take_along_dim(x, (x.reshape(-1) > 0).long()),
    "diff": lambda x: torch.diff(x) + (x > 0).diff().float(),
    "diff twice": lambda x: x.diff(2, 1, prepend=x[:, :1]),
    "gradient": lambda x: torch.gradient(x),
    "gradient by steps": lambda x: torch.gradient(x, spacing=[0.3, 2.0], dim=(1, 2), edge_order=2),
    "unravel_index": lambda x: torch.unravel_index(x.argsort(-1), (2, 3, x.shape[2])),
    "block_diag": lambda x: torch.block_diag(x[0], x[1], x[0, 0]),
    "affine_grid": lambda x: nnf.affine_grid(torch.rand(2, 2, 3).double(), (2, 1, 3, x.shape[2]), align_corners=False),
    "affine_grid 3d": lambda x: nnf.affine_grid(torch.rand(1, 3, 4), (1, 1, 2, 3, x.shape[2]), align_corners=True),
    "diagonal": lambda x: x.diagonal(x.shape[2] - 5, 1, 2).clone(),
}
POOLED = {
    "the greatest of all": lambda x: nnf.max_pool1d(x, x.size(2)).squeeze(2),
    "the greatest of an image": lambda x: nnf.max_pool2d(x[None], x.size()[1:]),
    "and where": lambda x: nnf.max_pool1d(x, x.size(2) // 2, return_indices=True),
    "in three": lambda x: nnf.max_pool3d(x[None, None], (1, 2, x.size(2) // 3), ceil_mode=True, padding=(0, 1, 0)),
    "the mean of an image": lambda x: nnf.avg_pool2d(x[None], x.shape[-2:]),
    "the mean of halves": lambda x: nnf.avg_pool1d(x, x.shape[-1] // 2),
    "the mean in three": lambda x: nnf.avg_pool3d(x[None, None], (1, 2, x.size(2) // 3), ceil_mode=True),
    "so many means": lambda x: nnf.adaptive_avg_pool1d(x, x.size(2) // 2),
}


SELDOM_GIVEN = {
    "diff of order 0": lambda x: x.diff(0),
    "diff of negative order": lambda x: x.diff(-1),
    "diff of a great order": lambda x: x.diff(x.shape[2] + 1),
    "diff behind another dimension": lambda x: x.diff(prepend=x[0]),
    "diff behind nothing": lambda x: x.diff(append=torch.empty(0, dtype=x.dtype)),
    "gradient of a third order": lambda x: torch.gradient(x, edge_order=3),
    "gradient along one dimension twice": lambda x: torch.gradient(x, dim=(1, -2)),
    "gradient of too few": lambda x: torch.gradient(x[:, :1], dim=1, spacing=x.shape[2] * 0.5),
    "gradient by two steps of three": lambda x: torch.gradient(x, spacing=(1, 2)),
    "combinations of none": lambda x: torch.combinations(x[0, 0], 0),
    "combinations of a matrix": lambda x: torch.combinations(x[0]),
    "take_along_dim by other dimensions": lambda x: x.take_along_dim(torch.zeros(1, dtype=torch.long), 1),
    "take_along_dim by short integers": lambda x: x.take_along_dim(torch.zeros(1, 1, 1, dtype=torch.int32), 1),
    "take_along_dim by numbers": lambda x: x.take_along_dim(x, 1),
    "unravel_index of numbers": lambda x: torch.unravel_index(x, (2, x.shape[2])),
    "unravel_index into less than nothing": lambda x: torch.unravel_index(x.argsort(-1), (2, -x.shape[2])),
    "block_diag of three dimensions": lambda x: torch.block_diag(x),
    "block_diag of nothing": lambda x: torch.block_diag() * x.shape[2],
    "block_diag of several types": lambda x: torch.block_diag(x[0].int(), x[1].half()),
    "kron of types": lambda x: torch.kron(x[0, 0].int(), torch.tensor([True, False])),
    "affine_grid of whole numbers": lambda x: nnf.affine_grid(
        torch.ones(1, 2, 3).int(), (1, 1, 3, x.shape[2]), align_corners=True
    ),
    "diagonal outside": lambda x: x.diagonal(x.shape[2] + 3, 1, 2),
    "max_pool1d of nothing": lambda x: nnf.max_pool1d(x, x.size(2) + 1),
}


def outcome(function, x):
    torch.manual_seed(0)
    found = function(x)
    results = found if isinstance(found, tuple) else (found,)
    losses = [result.square().sum() for result in results if result.requires_grad]
    return (*results, *(torch.autograd.grad(sum(losses), x) if losses else ()))


@pytest.mark.parametrize("name", [*MADE, *COMPOSED, *POOLED])
def test_two_graphs_and_what_eager_gives(name):
    function, log = (MADE | COMPOSED | POOLED)[name], capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(function)
    for length in LENGTHS:
        x = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
        for expected, actual in zip(outcome(function, x), outcome(captured, x), strict=True):
            torch.testing.assert_close(actual, expected)
            assert actual.stride() == expected.stride()
            assert actual.requires_grad == expected.requires_grad
            assert (actual._is_view(), actual._base is x) == (expected._is_view(), expected._base is x)
        assert type(captured(x)) is type(function(x))
    kinds = [type(record) for record in log.records()]
    assert (kinds.count(capture.GraphRecord), kinds.count(capture.BreakRecord)) == (2, 0)


REFUSED = (
    "diff of negative order",
    "gradient of a third order",
    "gradient along one dimension twice",
    "gradient by two steps of three",
    "take_along_dim by numbers",
    "block_diag of three dimensions",
)


@pytest.mark.without_graphs("eager refuses it", cases=REFUSED)
@pytest.mark.parametrize("name", SELDOM_GIVEN)
def test_what_is_seldom_given_is_eagers_or_refused_as_in_eager(name):
    captured = capture.optimize("eager", strict=True)(SELDOM_GIVEN[name])
    for length in LENGTHS[:3]:
        x = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
        expected, refused = outcome_or_error(SELDOM_GIVEN[name], x)
        found, also_refused = outcome_or_error(captured, x)
        assert (type(also_refused), str(also_refused)) == (type(refused), str(refused))
        torch.testing.assert_close(found, expected)


def outcome_or_error(function, x):
    try:
        return outcome(function, x), None
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        return (), error


@pytest.mark.parametrize("name", MADE | {"kron": None, "diagonal": None, "unravel_index": None})
def test_results_are_eagers_to_the_bit(name):
    function = (MADE | COMPOSED)[name]
    captured = capture.optimize("eager", strict=True)(function)
    for length in LENGTHS:
        x = torch.randn(2, 3, length)
        for expected, actual in zip(outcome(function, x), outcome(captured, x), strict=True):
            assert torch.equal(actual, expected)


@pytest.mark.parametrize("name", ["the greatest of all", "in three", "the mean of an image", "the mean in three"])
def test_gradients_of_gradients_of_pools(name):
    def penalty(x):
        pooled = POOLED[name](x * x)
        return torch.autograd.grad(pooled.square().sum(), x, create_graph=True)[0].square().sum()

    captured = capture.optimize("eager", strict=True)(POOLED[name])
    for length in LENGTHS:
        x = torch.randn(2, 3, length, dtype=torch.float64, requires_grad=True)
        expected = torch.autograd.grad(penalty(x), x)[0]
        inner = torch.autograd.grad(captured(x * x).square().sum(), x, create_graph=True)[0]
        torch.testing.assert_close(torch.autograd.grad(inner.square().sum(), x)[0], expected)


def test_classes_outside_of_what_varies_are_refused_as_in_eager():
    captured = capture.optimize("eager", strict=True)(lambda x, n: nnf.one_hot(x, n))
    for count in (4, 5, 6):
        captured(torch.arange(4), count)
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        captured(torch.arange(4), 3)


@pytest.mark.parametrize("module", [
    torch.nn.Conv1d(3, 6, 3, padding=1), torch.nn.ConvTranspose1d(3, 6, 3, stride=2, output_padding=1),
    torch.nn.Conv1d(3, 6, 1, groups=3, bias=False), torch.nn.Conv1d(3, 4, 3, padding="same"),
], ids=str)  # fmt: skip
def test_convolutions_of_batches_that_other_libraries_compute(module):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(module)
    for batch in (2, 7, 15, 16, 40):
        x = torch.randn(batch, 3, 10, requires_grad=True)
        for expected, actual in zip(outcome(module, x), outcome(captured, x), strict=True):
            torch.testing.assert_close(actual, expected)
            assert actual.stride() == expected.stride()
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2
