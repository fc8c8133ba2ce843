"""Kernels of small sizes: rows and columns of one, of odd numbers, around the width of vectors; values and gradients.

Every run in parallel draws a few others; SIZES_SEED draws those it names, SIZES_WHOLE=1 runs all.
"""

import os
import random

import pytest
import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

import compile_api

WHOLE = "SIZES_WHOLE" in os.environ
SEED = os.environ.get("SIZES_SEED") or os.environ.get("PYTEST_XDIST_TESTRUNUID", "32")  # one for all processes
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int16, torch.uint8)
EVERY = [(rows, columns, dtype) for rows in range(1, 19) for columns in (1, 2, 3, 4, 5, 7, 8, 9) for dtype in DTYPES]

PUT_TOGETHER = """
torch.cat([x, x])
torch.cat([x, x[:1] + 1, x * 2])
torch.cat([x, x.cumsum(0).to(x.dtype)])
torch.cat([x, x + 1], 1)
torch.cat([x[:, :1], x, x], 1)
torch.cat([-x[:, x.shape[1] // 2:], x[:, :x.shape[1] // 2]], 1)
torch.stack([x, x + 1])
torch.stack([x, x + 1, x], 1)
torch.stack([x, x * 2], -1).reshape(x.shape[0], -1)
F.pad(x, (0, 0, 1, 2))
F.pad(x, (2, 1))
F.pad(x, (1, 2, 2, 1), value=3)
F.pad(x[None], (1, 1), mode="circular")
x.roll(1, 0)
x.roll((1, 2), (0, 1))
x.repeat(2, 1)
x.repeat_interleave(2, 0)
torch.diag_embed(x)
torch.kron(x, torch.eye(2, dtype=x.dtype))
torch.cat([x[:1] * 0, x[:-1]])
torch.slice_scatter(x, x[:1] + 5, 0, x.shape[0] - 1)
torch.select_scatter(x, x[0] + 1, 1 - 1, x.shape[0] - 1)
x.tril()
x.triu(1)
""".strip().splitlines()

TAKEN_APART = """
x.t() + 1
x.t().contiguous()
x.flip(0) + x
x.flip(1) * 2
x[::2] + 1
x[:, ::2] + x[:, :1]
x.reshape(-1)[::3] + 1
x.diagonal() + 1
x.unfold(0, 2, 1) + 1
x.expand(3, *x.shape) + 1
[part + 1 for part in x.split(1, 1)]
sum(x.unbind(1))
F.one_hot(x.long() % 4, 4)
x[torch.arange(x.shape[0]).flip(0)]
x[torch.tensor([0, -1]), torch.tensor([0, -1])]
x.gather(1, torch.arange(x.shape[0])[:, None] % x.shape[1])
torch.zeros_like(x).scatter(1, torch.zeros(x.shape[0], 1, dtype=torch.long), x[:, :1])
torch.zeros_like(x).scatter_add(0, torch.zeros_like(x, dtype=torch.long), x)
torch.zeros_like(x).index_add(0, torch.zeros(x.shape[0], dtype=torch.long), x)
x + x[0] + x[:, :1]
torch.where(x > 5, x, x[:1])
torch.where((x > 5).t(), x.t(), 0)
x.masked_fill(x > 4, 0)
x.clamp(2, 7)
(x > x.flip(0)).to(x.dtype)
x.to(torch.uint8) + 1
""".strip().splitlines()

REDUCED = """
x.sum(0)
x.sum(1)
x.sum()
x.amax(0)
x.amin(1)
x.argmax(0)
x.argmin(1)
x.min(0)
x.max(1)
(x % 3 + 1).prod(1)
(x > 3).any(1)
(x > 3).all(0)
x.cumsum(0)
x.cumsum(1)
x.cummax(1)
x.sort(1)
x.sort(0, descending=True)
x.topk(1, 1)
x.kthvalue(1, 1)
x.median(1)
(x[:, :, None] + x[:, None, :]).sum(2)
(x[:, None] - x[None]).abs().sum(-1)
x.double().mean(1)
x.double().var(1, unbiased=False)
x.double().std(0, unbiased=False)
x.double().logsumexp(1)
x.double().softmax(0)
x.double().log_softmax(1)
F.layer_norm(x.double(), x.shape[1:])
x.double().norm(dim=1)
x.double() @ x.double().t()
F.interpolate(x.double()[None, None], scale_factor=2)
F.max_pool2d(F.pad(x.double()[None], (1, 1, 1, 1)), 2)
F.avg_pool2d(F.pad(x.double()[None], (1, 1, 1, 1)), 3, 1, 1)
""".strip().splitlines()

FORMS = {text: eval(f"lambda x: {text}", globals()) for text in (*PUT_TOGETHER, *TAKEN_APART, *REDUCED)}


def drawn():
    draw = random.Random(SEED)
    return [(8, 2, torch.float32), *([*EVERY] if WHOLE else draw.sample(EVERY, 3))]


def numbers(rows, columns, dtype):
    return (torch.arange(rows * columns).reshape(rows, columns) * 7 % 11 + 1).to(dtype)


def forms_of(dtype, rows, columns):
    """Those that torch has for the dtype."""
    taken = {}
    for text, form in FORMS.items():
        try:
            form(numbers(rows, columns, dtype))
        except (RuntimeError, NotImplementedError):  # "not implemented for 'Short'"
            continue
        taken[text] = form
    assert len(taken) > len(FORMS) * 0.9
    return taken


def strides(result):
    """But along dimensions of size 1, which eager does not choose alike from version to version either."""
    return [
        [stride for stride, size in zip(part.stride(), part.shape, strict=True) if size > 1]
        for part in pytree.tree_leaves(result)
        if isinstance(part, torch.Tensor)
    ]


def floats(result):
    return [part for part in pytree.tree_leaves(result) if part.requires_grad]


@pytest.mark.parametrize(("rows", "columns", "dtype"), drawn(), ids=lambda part: f"{part}".removeprefix("torch."))
def test_values_and_gradients(rows, columns, dtype):
    forms = forms_of(dtype, rows, columns)
    compiled = compile_api.compile(lambda x: [form(x) for form in forms.values()], fullgraph=True)
    for grad in {False, dtype.is_floating_point}:
        x = numbers(rows, columns, dtype).requires_grad_(grad)
        ours, expected = compiled(x), [form(x) for form in forms.values()]
        for text, one, other in zip(forms, ours, expected, strict=True):
            torch.testing.assert_close(one, other, msg=lambda said, text=text: f"{text}: {said}")
            assert strides(one) == strides(other), text
            for part, like in zip(floats(one), floats(other), strict=True):
                mine, theirs = (torch.autograd.grad(each.sum(), x, retain_graph=True)[0] for each in (part, like))
                torch.testing.assert_close(mine, theirs, msg=lambda said, text=text: f"gradient of {text}: {said}")
    assert not compile_api.report(compiled).refused


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["sum", "mean", "nansum", "norm"])
def test_of_no_elements(name):
    """The kernel is built (or it would warn), and gives what eager gives of no numbers at all."""
    compiled = compile_api.compile(lambda x: getattr(torch, name)(x), fullgraph=True)
    x = torch.ones(0, 3, requires_grad=True) + 1
    for x in (x, x.t(), x.t()[:, :0], torch.ones(2, 3)):
        torch.testing.assert_close(compiled(x), getattr(torch, name)(x), equal_nan=True)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_class_that_there_is_not_is_eagers_error(backend):
    compiled = compile_api.compile(lambda labels: F.one_hot(labels, 5) * 2, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.tensor([0, 4, 2])), F.one_hot(torch.tensor([0, 4, 2]), 5) * 2)
    assert not compile_api.report(compiled).refused
    for labels in (torch.tensor([1, 5, 2]), torch.tensor([1, -1, 2])):
        with pytest.raises(RuntimeError) as expected:
            F.one_hot(labels, 5)
        with pytest.raises(RuntimeError) as found:
            compiled(labels)
        assert str(found.value) == str(expected.value)
