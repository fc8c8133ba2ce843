"""How results lie along dimensions of one element, which may have any stride: by it kernels tell what format an operand
has, a convolution behind it lies so, and draws in its order are others.

Fakes of all operators of ``op_db`` that take one tensor, or two, beside their kernels, and programs on images of one
channel that was innermost.
"""

import random
import warnings
from itertools import product

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import compile_api
from aotgrad.recording import memory_order
from capture.recording import result_layouts

SIZES = (2, 3, 4, 5)
SINGLE = [(1,), (2,), (3,), (0,), (2, 3), (1, 2), (0, 1, 2)]
ORDERS = [(0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 3, 2), (2, 3, 0, 1)]


def lying(x, order):
    return x.permute(order).contiguous().permute([order.index(dim) for dim in range(x.dim())])


def operands():
    """Images with one element along some dimensions: dense ones, parts of larger ones and spread ones."""
    for single, order in product(SINGLE, ORDERS):
        larger = lying(torch.rand(SIZES) + 0.1, order)
        part = larger[tuple(slice(0, 1) if dim in single else slice(None) for dim in range(4))]
        yield from (part, lying(part, order), part[:, :, :1].expand(part.shape))
        yield torch.empty(part.shape, memory_format=torch.channels_last).copy_(part)


class Compared(TorchDispatchMode):
    """Runs operators on data, and notes those of which the fakes, as corrected, lie otherwise."""

    def __init__(self, correct):
        super().__init__()
        self.fake_mode, self.correct, self.others = FakeTensorMode(), correct, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if func._schema.is_mutable or not isinstance(made, torch.Tensor) or made.dim() < 2 or not made.numel():
            return made
        try:
            with self.fake_mode:
                fakes, options = pytree.tree_map_only(torch.Tensor, faked, (args, kwargs or {}))
                told = self.correct(func, fakes, options, func(*fakes, **options), self.fake_mode)
        except (RuntimeError, NotImplementedError, TypeError):  # known by data alone
            return made
        if told.stride() != made.stride():
            self.others.setdefault(str(func), (pytree.tree_map_only(torch.Tensor, lies, args), lies(made), lies(told)))
        return made


def faked(x):
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)


def lies(x):
    return tuple(x.shape), x.stride()


CORRECTED = {
    "capture": lambda func, args, kwargs, made, _: result_layouts.corrected(func, args, kwargs, made),
    "aotgrad": memory_order.corrected,
}
OTHERS = ("multinomial", "to_sparse", "ctc_loss", "jiterator", "empty")
OPERATORS = {
    each.full_name: each.op
    for each in op_db
    if torch.float32 in each.dtypes and not any(word in each.name for word in OTHERS)
}
LEFT = {f"aten.{name}.default" for name in ("_fft_r2c", "_fft_c2r", "_fft_c2c", "rot90", "linalg_vector_norm")}
"""Operators of which fakes are still told otherwise."""


@pytest.mark.parametrize("package", CORRECTED)
@pytest.mark.parametrize("name", OPERATORS)
def test_fakes_lie_as_kernels_lay_results_out(name, package):
    given = random.Random(name).sample(list(operands()), 16)
    with warnings.catch_warnings(), Compared(CORRECTED[package]) as compared:
        warnings.simplefilter("ignore")
        for number, x in enumerate(given):
            if not applied(name, x):
                break
        for number, x in enumerate(given):
            if not all(applied(name, *pair) for pair in pairs(x, given[number - 5])):
                break
    assert {func: told for func, told in compared.others.items() if func not in LEFT} == {}


def pairs(x, other):
    contiguous = torch.empty(x.shape).copy_(x)
    return (x, x), (x, contiguous), (contiguous, x), (x, torch.tensor(0.5)), (x, 2.0), (x, x.mean(1, keepdim=True))


def applied(name, *given):
    try:
        OPERATORS[name](*given)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, NotImplementedError):
        return False
    return True


# -- programs ------------------------------------------------------------------------------------------------------

CONVOLUTION = torch.nn.Conv2d(1, 8, 3, padding=1)
BEFORE = {
    "relu": F.relu,
    "in place": lambda x: F.relu_(x.clone()),
    "clamp": lambda x: x.clamp(min=0.2),
    "beside a number": lambda x: (x - 0.13) / 0.3,
    "beside itself": lambda x: x + x,
    "gelu": F.gelu,
    "masked": lambda x: x.masked_fill(x < 0.3, 0),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "rolled": lambda x: torch.roll(x, 1, 2),
    "flipped": lambda x: x.flip(-1) + 1,
    "as it is, by sizes": lambda x: x.view(x.shape),
    "of another shape": lambda x: x.view(-1, 1, 10, 12) * 2,
    "normalised": lambda x: F.normalize(x, dim=1),
    "a mean away": lambda x: x - x.mean((2, 3), keepdim=True),
}
BEHIND = {
    "dropout": lambda h: F.dropout(h, 0.5),
    "drawn like it": torch.rand_like,
    "in one row": lambda h: h.view(h.shape[0], -1) + 1,
    "by strides": lambda h: h.as_strided((5,), (7,)) + 1,
    "told": lambda h: (h, h.stride(), h.is_contiguous()),
}


def outcome(function, x):
    torch.manual_seed(1)
    try:
        made = function(x)
    except RuntimeError as error:
        return type(error)
    told = made if isinstance(made, tuple) else (made,)
    return told[0].detach(), told[0].stride(), told[1:]


def assert_same(found, expected):
    if isinstance(expected, type):
        assert found is expected
    else:
        assert found[1:] == expected[1:]
        torch.testing.assert_close(found[0], expected[0])


def image(count=2):
    return torch.rand(count, 1, 12, 10).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("before", BEFORE)
def test_behind_a_convolution_of_one_channel(before, behind, backend):
    def program(x):
        return BEHIND[behind](CONVOLUTION(BEFORE[before](x)))

    x = image()
    for with_gradients in (False, True):
        with torch.set_grad_enabled(with_gradients):
            compiled = compile_api.compile(program, backend=backend)
            assert_same(outcome(compiled, x), outcome(program, x))


NOT_WHERE_SIZES_VARY = ("nearest", "bilinear", "rolled", "as it is, by sizes", "of another shape")
"""Of these the layout is told, or taken, by torch's rules in Python there."""


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("before", [name for name in BEFORE if name not in NOT_WHERE_SIZES_VARY])
def test_of_images_of_any_count(before, backend):
    def program(x):
        h = CONVOLUTION(BEFORE[before](x))
        return F.dropout(h, 0.5), h.stride()

    compiled = compile_api.compile(program, backend=backend)
    for count in (2, 3, 5, 7):
        x = image(count)
        assert_same(outcome(compiled, x), outcome(program, x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("shape", [(2, 4, 1, 6), (2, 4, 6, 1)])
def test_turned_images_of_one_row(shape, backend):
    weight, y = torch.randn(8, 4, 3, 3), torch.randn(shape).to(memory_format=torch.channels_last)

    def program(y):
        h = F.conv2d(y.transpose(2, 3) * 1, weight, padding=1)
        return torch.rand_like(h), h.stride()

    assert_same(outcome(compile_api.compile(program, backend=backend), y), outcome(program, y))
