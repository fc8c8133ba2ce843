"""Limits: past that of versions one more may serve all, and a loop of very many operators is not unrolled."""

import pytest
import torch
from torch.nn import functional as nnf

import capture

LIMIT = 4


def kinds_of(function, calls, **options):
    log = capture.Log()
    captured = capture.optimize("eager", recompile_limit=LIMIT, log=log, **options)(function)
    for args in calls:
        torch.manual_seed(0)
        expected = function(*args)
        torch.manual_seed(0)
        torch.testing.assert_close(captured(*args), expected)
    return [type(record) for record in log.records()]


def widened(x):
    return nnf.dropout(x + 1, 1 / x.shape[1]) * 2


def widened_in_blocks(x):
    with torch.no_grad():
        try:
            x = nnf.dropout(x + 1, 1 / x.shape[1]) * 2
        finally:
            x = x + 1
    return x


@pytest.mark.parametrize("function", [
    lambda x: (x * 2).unfold(-1, x.shape[1] // 2, 1).sum() + x.sin().sum(),
    lambda x: nnf.adaptive_max_pool2d(x.sin()[None], (3, x.shape[1] // 2)) + 1,
    lambda x: widened(x.sin()) + x.cos(),
    widened_in_blocks,
])  # fmt: skip
def test_an_operator_that_takes_a_size_for_a_constant_ends_the_graph_for_all_sizes(function):
    few = kinds_of(function, [(torch.randn(3, n),) for n in range(4, 16)])
    many = kinds_of(function, [(torch.randn(3, n),) for n in range(4, 34)])
    assert many.count(capture.GraphRecord) == few.count(capture.GraphRecord) > LIMIT
    assert 1 <= many.count(capture.BreakRecord) <= 2


def test_numbers_that_are_passed_in():
    kinds = kinds_of(lambda x, n: torch.polygamma(n, x.abs() + 1) * 2, [(torch.randn(3), n) for n in range(2, 20)])
    assert kinds.count(capture.BreakRecord) == 1
    assert capture.FallbackRecord not in kinds


def test_a_program_that_goes_by_the_size_is_left_to_python_and_says_so():
    unrolled = lambda x: sum(x[i] for i in range(len(x))) * 2
    with pytest.warns(capture.CaptureWarning, match=rf"{LIMIT} versions exist already and none fits.*size\(\)\[0\]"):
        kinds = kinds_of(unrolled, [(torch.randn(n),) for n in range(3, 20)])
    assert kinds.count(capture.GraphRecord) == LIMIT
    assert kinds.count(capture.FallbackRecord) == 1


def test_nothing_is_opened_where_sizes_are_to_be_fixed():
    with pytest.warns(capture.CaptureWarning, match="versions exist already"):
        kinds = kinds_of(widened, [(torch.randn(3, n),) for n in range(4, 16)], dynamic=False)
    assert capture.BreakRecord not in kinds


# -- the size of one graph --------------------------------------------------------------------------------------------


def plain_loop(x):
    for _ in range(300):
        x = x + 1
    return x


def counted_loop(x):
    i = 0
    while i < 90:
        x, i = x + i, i + 1
    return x


def block(x):
    for i in range(15):
        x = x + i
    return x


def loop_of_calls(x):
    for _ in range(20):
        x = block(x)
    return x


def graphs_of(function, x, **options):
    sizes = []

    def backend(module, examples):
        sizes.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
        return module

    captured = capture.optimize(backend, options=capture.Options(strict=True, **options))(function)
    for _ in range(2):
        assert torch.equal(captured(x), function(x))
    return sizes


@pytest.mark.parametrize("function", [plain_loop, counted_loop, loop_of_calls])
def test_a_graph_ends_when_it_is_large(x, function):
    sizes = graphs_of(function, x, largest_graph=20)
    assert len(sizes) > 1
    assert max(sizes) <= 20


@pytest.mark.parametrize("options", [{"nopython": True, "largest_graph": 20}, {"largest_graph": None}, {}])
def test_no_bound_is_met(x, options):
    assert graphs_of(counted_loop, x, **options) == [90]
