"""Attention in the ways people write it out is one call of the library, with eager's results."""

import math

import pytest
import torch
from compiled import check, kernels, program_of

from inductor.ir.program import Call

R = torch.randn
QKV = (R(2, 3, 7, 16), R(2, 3, 19, 16), R(2, 3, 19, 16))
PADDING = torch.arange(19) >= torch.tensor([[[[19]]], [[[6]]]])
CAUSAL = torch.ones(7, 19).tril().bool()


def plain(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v


def split_heads(x, bias):
    """As GPT-2 and its kin: heads cut from one projection, a causal mask, heads joined again."""
    q, k, v = (part.view(2, 17, 3, 16).transpose(1, 2) for part in x.split(48, dim=2))
    scores = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(16))
    scores = scores.masked_fill(bias[:, :, :17, :17] == 0, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(2, 17, 48)


def float_softmax(q, k, v, mask):
    """As Llama and its kin: the softmax in single precision."""
    scores = torch.matmul(q, k.transpose(2, 3)) * 16**-0.5 + mask
    return torch.matmul(torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v)


def where_smallest(q, k, v, keep):
    """As older models: what is not kept becomes the smallest number."""
    scores = torch.where(keep, q @ k.transpose(-1, -2), torch.full([], torch.finfo(q.dtype).min, dtype=q.dtype))
    return scores.softmax(-1) @ v


def relative(q, k, v, position, padding):
    """As T5: no scale, a learned bias and a mask."""
    return ((q @ k.transpose(-1, -2)) + position + padding).softmax(-1) @ v


def added_by_the_product(q, k, v, bias):
    """As Bloom: the product adds a bias per head."""
    scores = torch.baddbmm(bias, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=0.25).view(2, 3, 7, 19)
    return torch.bmm(scores.softmax(-1).view(6, 7, 19), v.flatten(0, 1))


def einsum(q, k, v):
    scores = torch.einsum("bhid,bhjd->bhij", q * 0.3, k)
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def half(*tensors):
    return tuple(tensor.bfloat16() for tensor in tensors)


def cut(image):
    """Windows of an image, as in Swin: what is copied for a product had other rows before."""
    return image.view(2, 3, 4, 2, 5, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 20, 16)


FINITE = torch.where(PADDING, torch.finfo(torch.float32).min, 0.0)
FORMS = {
    "plain": (plain, *QKV),
    "without heads": (plain, R(4, 7, 16), R(4, 19, 16), R(4, 19, 5)),
    "split heads": (split_heads, R(2, 17, 144), torch.ones(1, 1, 19, 19).tril()),
    "float softmax": (float_softmax, *half(*QKV, torch.where(PADDING, torch.finfo(torch.bfloat16).min, 0.0))),
    "where smallest": (where_smallest, *QKV, CAUSAL),
    "where smallest, nothing kept in a row": (where_smallest, *QKV, CAUSAL & (torch.arange(7) != 3)[:, None]),
    "minus a billion": (lambda q, k, v, m: (q @ k.mT / 4).masked_fill(m, -1e9).softmax(-1) @ v, *QKV, PADDING),
    "relative": (relative, *QKV, R(1, 3, 7, 19), FINITE),
    "a bias of heads": (relative, *QKV, R(3, 7, 19), R(19)),
    "a bias of rows, no heads": (relative, *[R(4, 17, 1, 16)[:, :, 0]] * 3, R(4, 1, 17), R(17, 17)),
    "added by the product": (added_by_the_product, *QKV, R(6, 1, 19)),
    "einsum": (einsum, *QKV),
    "windows": (lambda q, k, v: plain(cut(q), cut(k), cut(v)), *[R(2, 12, 10, 16)] * 3),
    "windows with a bias": (
        lambda q, k, v, bias: relative(cut(q), cut(k), cut(v), bias, bias),
        *[R(2, 12, 10, 16)] * 3,
        R(12, 20, 20),
    ),
    "a row of minus infinity": (relative, *QKV, torch.zeros(7, 19), torch.where(CAUSAL.flip(0), -torch.inf, 0.0)),
}


def library_calls(function, *inputs):
    return [str(step.target) for step in program_of(function, *inputs).steps if isinstance(step, Call)]


@pytest.mark.parametrize("name", FORMS)
def test_is_one_call(name):
    function, *inputs = FORMS[name]
    assert library_calls(function, *inputs) == ["aten.scaled_dot_product_attention.default"]
    tolerance = {"atol": 1e-2, "rtol": 2e-2} if inputs[0].dtype == torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-5}
    check(function, *inputs, **tolerance)


def test_operands_are_taken_as_they_lie():
    function, *inputs = FORMS["split heads"]
    assert kernels(function, *inputs) == 2  # the mask; what follows with the joining of the heads


def test_an_operand_written_to_since_it_was_copied():
    def function(q, k, v):
        copied = q.transpose(1, 2).contiguous()
        scores = copied.transpose(1, 2) @ k.mT
        q.zero_()
        return scores.softmax(-1) @ v

    check(function, *QKV, atol=1e-5, rtol=1e-5)


def with_probabilities(q, k, v):
    p = (q @ k.mT).softmax(-1)
    return p @ v, p


SHAPES = [
    (6, 1, 256),
    (2, 3, 1, 256),
    (2, 48, 16),
    (2, 16, 3, 16),
    (96, 16),
    (6, 16, 16),
    (3, 2, 16, 16),
    (1, 6, 16, 16),
]
SHAPES += [(48, 32), (6, 64, 4), (2, 3, 16, 2, 8), (2, 3, 16, 16), (1536,), (6, 4, 64), (2, 3, 4, 64), (2, 3, 32, 8)]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_softmax_of_the_scores_in_another_shape(shape, scaled):
    """The same elements in the same order, whose rows are others."""

    def function(q, k, v):
        scores = q @ k.mT
        weights = (scores.view(shape) * 0.5 if scaled else scores.view(shape)).softmax(-1)
        return weights.view(scores.shape) @ v

    check(function, *R(3, 2, 3, 16, 16), atol=1e-5, rtol=1e-5)


ONE_QUERY = {
    "rows": lambda t: t.permute(0, 2, 1, 3),
    "heads last": lambda t: t.permute(2, 0, 1, 3),
    "nothing": lambda t: t,
    "squeezed": lambda t: t.squeeze(2).unsqueeze(1),
}


@pytest.mark.parametrize("name", ONE_QUERY)
def test_one_query_whose_dimension_moves(name):
    def function(q, k, v):
        scores = ONE_QUERY[name](q @ k.mT)
        return scores.softmax(-1).reshape(2, 3, 1, 19) @ v

    check(function, QKV[0][:, :, :1], *QKV[1:], atol=1e-5, rtol=1e-5)


SPREAD = {
    "masked": lambda s, m: s.masked_fill(m, -torch.inf),
    "added": lambda s, m: s + m * -5.0,
    "chosen": lambda s, m: torch.where(m, -torch.inf, s),
}


@pytest.mark.parametrize("name", SPREAD)
def test_scores_that_a_mask_spreads_over_batches(name):
    """Scores of positions, the same for each sequence, and what is padding in each."""
    q = R(3, 7, 16)
    padding = torch.arange(19) >= torch.tensor([[[[19]]], [[[6]]]])

    def function(q, k, v, padding):
        return SPREAD[name](q @ k.mT, padding).softmax(-1) @ v

    check(function, q, R(3, 19, 16), R(2, 3, 19, 4), padding, atol=1e-5, rtol=1e-5)


WITHIN = {
    "probabilities of themselves": lambda q, k, v: (lambda p: p @ p)((q @ k.mT).softmax(-1)),
    "scores as values": lambda q, k, v: (lambda s: (s * 2).softmax(-1) @ s)(q @ k.mT),
    "scores as a mask": lambda q, k, v: (lambda s: (s + s).softmax(-1) @ v)(q @ k.mT),
    "one after another": lambda q, k, v: ((q @ k.mT).softmax(-1) @ v).softmax(-1) @ v,
    "one in another": lambda q, k, v: (((q @ k.mT).softmax(-1) @ v) @ k.mT).softmax(-1) @ v,
    "two of the same scores": lambda q, k, v: (lambda s: (s.softmax(-1) @ v, (s * 2).softmax(-1) @ k))(q @ k.mT),
}


@pytest.mark.parametrize("name", WITHIN)
def test_an_attention_that_reads_what_is_within_one(name):
    check(WITHIN[name], *R(3, 2, 3, 16, 16), atol=1e-5, rtol=1e-5)


NARROWED = {
    "halves": lambda q, k, v: (q @ k.mT * 3e4).half().softmax(-1).float() @ v,
    "halves for a while": lambda q, k, v: (q @ k.mT * 3e4).half().float().softmax(-1) @ v,
    "few digits": lambda q, k, v: (q @ k.mT * 200).bfloat16().softmax(-1).float() @ v,
    "other halves": lambda q, k, v: (
        (q.bfloat16() @ k.bfloat16().mT * 3e4).half().float().softmax(-1).bfloat16() @ v.bfloat16()
    ),
}


@pytest.mark.parametrize("name", NARROWED)
def test_scores_that_are_rounded_on_their_way(name):
    check(NARROWED[name], *QKV, atol=2e-2, rtol=2e-2)


@torch.library.custom_op("attention_of_tests::fill", mutates_args=("x",))
def fill(x: torch.Tensor) -> None:
    x.fill_(0.5)


@pytest.mark.parametrize("written", range(4))
def test_operands_that_are_written_to_between_the_products(written):
    def function(q, k, v, mask):
        scores = q @ k.mT + mask
        fill((q, k, v, mask)[written])
        return scores.softmax(-1) @ v

    check(function, *QKV, R(7, 19), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("keys", [1, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("where", [0, 1, 2])
def test_what_is_no_number_is_none_in_the_result(where, keys):
    operands = [R(1, 2, 5, 16), R(1, 2, keys, 16), R(1, 2, keys, 16)]
    operands[where][0, 1, 0, 0] = math.nan
    check(plain, *operands, atol=1e-5, rtol=1e-5)


def test_a_scale_is_of_the_type_that_it_was_made_in():
    def function(q, k, v):
        return (q @ k.mT * torch.full((), 2.7, dtype=torch.int64)).softmax(-1) @ v

    check(function, *QKV, atol=1e-5, rtol=1e-5)


LEFT = torch.arange(19) < torch.tensor([[[[0]]], [[[4]]]])
"""Keys that are padding; rows of padding alone are masked out whole, together with those behind."""
STEPS = {
    "add zeros and smallest": lambda s, causal, left, smallest, cut: s + smallest,
    "add a bias": lambda s, causal, left, smallest, cut: s + causal * 4500.0,
    "add minus infinity": lambda s, causal, left, smallest, cut: s + cut,
    "scale": lambda s, *masks: s * 0.5,
    "fill with -10000": lambda s, causal, left, *others: s.masked_fill(left, -1e4),
    "fill with a billion": lambda s, causal, left, *others: s.masked_fill(left, -1e9),
    "choose a billion": lambda s, causal, *others: torch.where(causal, s, -1e9),
    "fill with smallest": lambda s, causal, left, *others: s.masked_fill(left, torch.finfo(s.dtype).min),
    "choose smallest": lambda s, causal, *others: torch.where(causal, s, torch.finfo(s.dtype).min),
    "fill with -1e31": lambda s, causal, left, *others: s.masked_fill(left, -1e31),
    "fill with infinity": lambda s, causal, *others: s.masked_fill(~causal, -torch.inf),
}


@pytest.mark.parametrize("softmax_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("first", STEPS)
def test_masks_of_all_kinds_in_any_order(first, dtype, softmax_dtype):
    def function(q, k, v, *masks):
        # Each of other queries: equal products would be one, which several read.
        scores = [STEPS[first](((q * (1 + n / 64)) @ k.mT).to(softmax_dtype), *masks) for n in range(len(STEPS))]
        masked = [step(each, *masks) for step, each in zip(STEPS.values(), scores, strict=True)]
        return [each.softmax(-1).to(dtype) @ v for each in masked]

    added = torch.where(CAUSAL, 0.0, torch.finfo(softmax_dtype).min), torch.where(LEFT, -torch.inf, 0.0)
    operands = (tensor.to(dtype) for tensor in QKV)
    # Whatever is rounded on the way; a mask that is none is off by ten times as much.
    check(function, *operands, CAUSAL, LEFT, *(mask.to(softmax_dtype) for mask in added), atol=4e-2, rtol=4e-2)


APART = {
    "probabilities are wanted": (with_probabilities, *QKV),
    "softmax over queries": (lambda q, k, v: (q @ k.mT).softmax(-2) @ v, *QKV),
    "scaled after the mask": (lambda q, k, v, m: ((q @ k.mT + m) * 0.5).softmax(-1) @ v, *QKV, FINITE),
    "filled with ordinary numbers": (lambda q, k, v, m: (q @ k.mT).masked_fill(m, -3.0).softmax(-1) @ v, *QKV, PADDING),
    "filled with numbers of a model": (
        lambda q, k, v, m: (q @ k.mT).masked_fill(m, -1e4).softmax(-1) @ v,
        *QKV,
        PADDING,
    ),
    "something else between": (lambda q, k, v: (q @ k.mT).tanh().softmax(-1) @ v, *QKV),
    "double precision": (plain, *(tensor.double() for tensor in QKV)),
    "a bias in full precision": (float_softmax, *half(*QKV), FINITE),
}


@pytest.mark.parametrize("name", APART)
def test_stays_as_written(name):
    function, *inputs = APART[name]
    assert library_calls(function, *inputs) == ["aten.bmm.default"] * 2
