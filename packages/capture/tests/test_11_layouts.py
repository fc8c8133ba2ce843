"""Strides, and what tensors tell of themselves: relied on as eager would notice, and no more than that."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import capture
from capture.recording.tensor_queries import QUESTIONS


def graphs_for(function, inputs):
    """How many graphs these calls take, each checked against eager."""
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(function)
    for x in inputs:
        (expected, *told), (actual, *also_told) = function(x), region(x)
        assert also_told == told
        assert torch.equal(actual.resolve_neg(), expected.resolve_neg())
        assert actual.stride() == expected.stride()
    return sum(isinstance(record, capture.GraphRecord) for record in log.records())


def branching(x):
    return (x * 2 if x.is_contiguous() else x * 3), x.stride()


def test_strides_count_where_sizes_vary_too():
    columns = torch.ones(8, 10)[:, ::2]
    inputs = [torch.ones(4, 5), torch.ones(6, 5), torch.ones(5, 7).t(), columns, torch.ones(5, 9).t(), torch.ones(9, 5)]
    assert graphs_for(branching, inputs) <= 4


def test_strides_that_vary_take_one_more_graph():
    last = [torch.randn(2, length, 8)[:, -1:] for length in range(4, 30)]
    assert graphs_for(lambda x: (x.sin() + 1, x.stride()), last) == 2


def test_lengths_and_their_strides_vary_at_once():
    inputs = [torch.randn(2, length + 3, 8)[:, :length] for length in range(4, 30)]
    assert graphs_for(lambda x: (x.sin() + 1, x.size(1)), inputs) == 2


def test_the_order_of_dimensions_is_a_version_of_its_own():
    pairs = [torch.randn(4, length, 6) for length in (3, 5, 7, 8)]
    turned = [x.permute(2, 1, 0).contiguous().permute(2, 1, 0) for x in pairs]
    assert (
        graphs_for(lambda x: (x.sin() + 1, x.stride()), [x for pair in zip(pairs, turned, strict=True) for x in pair])
        <= 4
    )


@st.composite
def strided(draw):
    """A piece of a larger tensor, its dimensions in any order."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=3))
    larger = torch.randn([size + draw(st.integers(0, 2)) for size in sizes])
    piece = larger[tuple(slice(0, size) for size in sizes)]
    return piece.permute(draw(st.permutations(range(len(sizes)))))


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")  # more layouts than there may be versions
@given(st.lists(strided(), min_size=2, max_size=6))
@settings(max_examples=40, deadline=None)
def test_any_layouts_one_after_another(inputs):
    graphs_for(branching, inputs)


def kinds_of_tensors():
    plain, complex_ones = torch.ones(3, 4), torch.ones(3, 4, dtype=torch.complex64)
    with torch.inference_mode():
        inference = torch.ones(3, 4)
    leaf = torch.ones(3, 4, requires_grad=True)
    first, second = torch.ones(2, 3, 4).unbind()
    return [plain, inference, leaf, leaf * 2, first, second, complex_ones.imag, complex_ones.conj().imag, plain[:]]


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_answers_are_asked_anew(question):
    graphs_for(lambda x: (x * 2, getattr(x, question)()), kinds_of_tensors() * 2)
    graphs_for(lambda x: (x * 2, getattr(x.detach()[1:], question)()), kinds_of_tensors() * 2)


def test_leaves_are_told_from_results():
    inputs = kinds_of_tensors() * 2
    assert graphs_for(lambda x: (x * 2, x.is_leaf, x.grad_fn is None), inputs) <= len(inputs)


def test_what_nobody_asks_is_not_relied_on():
    halves = torch.randn(2, 3, 4).unbind()
    assert graphs_for(lambda x: (x * 2, x.nbytes), [*halves, torch.randn(3, 4)]) == 1


def test_where_a_tensor_begins_matters_to_what_counts_from_the_start():
    pieces = torch.arange(24.0).split(8)
    assert graphs_for(lambda x: (torch.as_strided(x, (3,), (1,), 0) * 2,), pieces) == 3


def test_bytes_of_sizes_that_vary():
    assert graphs_for(lambda x: (x * 2, x.nbytes), [torch.ones(n, 3) for n in (2, 3, 4, 5)]) == 2


def test_a_failure_says_the_strides():
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(branching)
    region(torch.ones(4, 4))
    region(torch.ones(4, 4).t())
    failed = next(record.failed for record in log.records() if isinstance(record, capture.RecompileRecord))
    assert "but its strides are (1, 4)" in failed
