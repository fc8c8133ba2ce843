"""How results of torch's operators lie in memory, of operands in every layout: as eager's kernels lay them out.

All operators of ``op_db`` that take one tensor, or two, and nothing else, and their gradients; the function is told the
same while it runs.
"""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.testing._internal.common_methods_invocations import op_db

import compile_api
from aotgrad.recording import memory_order
from capture.recording import result_layouts

IMAGES = torch.rand(2, 4, 4, 6) + 0.1
LAYOUTS = {
    "sequences, turned": (torch.rand(3, 6, 4) + 0.1).mT,
    "channels last": IMAGES.to(memory_format=torch.channels_last),
    "turned around": (torch.rand(6, 4, 4, 2) + 0.1).permute(3, 2, 1, 0),
    "with gaps": (torch.rand(2, 4, 8, 12) + 0.1)[..., ::2, ::2],
    "with gaps and turned": (torch.rand(2, 12, 8) + 0.1).mT[:, ::2, ::2],
    "some channels": (torch.rand(2, 8, 4, 6) + 0.1).to(memory_format=torch.channels_last)[:, :4],
    "expanded": (torch.rand(1, 4, 6) + 0.1).expand(3, 4, 6),
}
NOT_OF_VALUES = ("empty", "item", "bernoulli", "dropout", "multinomial", "normal", "rand", "uniform", "cauchy",
                 "exponential", "geometric", "linalg", "fft", "masked", "rrelu")  # fmt: skip
OPERATORS = [
    operator
    for operator in op_db
    if torch.float32 in operator.dtypes and not any(word in operator.name for word in NOT_OF_VALUES)
]


def applied(operator, operands):
    """Nothing where the operator takes no such operands, or gives no table."""
    try:
        result = operator.op(*operands)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, Warning):
        return None
    is_table = isinstance(result, torch.Tensor) and result.layout is torch.strided and result.dim() > 1
    return result if is_table and result.numel() else None


def differences(operands, backend):
    results = [(operator, applied(operator, operands)) for operator in OPERATORS]
    expected = [(operator, result.stride()) for operator, result in results if result is not None]

    def program(*operands):
        made = [operator.op(*operands) for operator, _ in expected]
        return made, [each.stride() for each in made]

    made, told = compile_api.compile(program, backend=backend, fullgraph=True)(*operands)
    found = zip(expected, [each.stride() for each in made], told, strict=True)
    return [(operator.name, *lies) for (operator, wanted), *lies in found if lies != [wanted, wanted]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_one_operand(layout, backend):
    assert differences([LAYOUTS[layout]], backend) == []


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("layout", ["sequences, turned", "some channels", "expanded"])
@pytest.mark.parametrize("order", [1, -1], ids=["beside a contiguous one", "behind a contiguous one"])
def test_of_two_operands(order, layout, backend):
    operands = [LAYOUTS[layout], LAYOUTS[layout].contiguous() + 1][::order]
    assert differences(operands, backend) == []


def normed(x):
    return torch.nn.functional.batch_norm(x, None, None, training=True)


DERIVED = {each.full_name: each.op for each in OPERATORS if each.supports_autograd and each.name != "to_sparse"}
DERIVED |= {"batch norm": normed, "rrelu": lambda x: torch.nn.functional.rrelu(x, training=True)}


def gradient(function, x, arriving):
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(function(leaf), leaf, arriving)[0]


def lies(function, *given):
    """How the gradient lies in eager; nothing where the function is none of these operands."""
    try:
        return gradient(function, *given).stride()
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, Warning):
        return None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("layout", ["sequences, turned", "channels last", "some channels"])
@pytest.mark.parametrize("order", [1, -1], ids=["of a turned one", "arriving turned"])
def test_of_gradients(order, layout, backend):
    given = [LAYOUTS[layout], LAYOUTS[layout].contiguous() + 1][::order]
    expected = {name: found for name, each in DERIVED.items() if (found := lies(each, *given)) is not None}
    assert len(expected) > 80

    def program(*given):
        made = {name: gradient(DERIVED[name], *given) for name in expected}
        return made, {name: each.stride() for name, each in made.items()}

    made, told = compile_api.compile(program, backend=backend, fullgraph=True)(*given)
    assert told == expected
    assert {name: each.stride() for name, each in made.items()} == expected


OF_A_COUNT = {
    "time first": lambda count: (torch.rand(2, count, 4) + 0.1).transpose(0, 1),
    "channels last": lambda count: (torch.rand(count, 4, 4, 6) + 0.1).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("layout", OF_A_COUNT)
@pytest.mark.parametrize("arriving", ["contiguous", "expanded"])
def test_of_gradients_of_sizes_that_vary(arriving, layout, backend):
    def given(count):
        x = OF_A_COUNT[layout](count)
        return x, x.contiguous() + 1 if arriving == "contiguous" else torch.ones(()).expand(x.shape)

    names = [name for name, each in DERIVED.items() if lies(each, *given(3)) is not None]
    assert len(names) > 80

    def program(*given):
        made = {name: gradient(DERIVED[name], *given) for name in names}
        return made, {name: each.stride() for name, each in made.items()}

    compiled = compile_api.compile(program, backend=backend)
    for count in (3, 5, 7):
        expected = {name: lies(DERIVED[name], *given(count)) for name in names}
        made, told = compiled(*given(count))
        found = {name: each.stride() for name, each in made.items()}
        others = [name for name in names if not told[name] == found[name] == expected[name]]
        assert others == ([] if count == 3 or arriving == "expanded" else MADE_OF_OTHERS)


MADE_OF_OTHERS = ["nn.functional.softshrink", "nn.functional.hardshrink"]
"""Operators that torch makes of others before they get a gradient, where sizes vary: it lies as that of `where`."""

HALVES = {
    "layers": lambda x, weight: torch.native_layer_norm(x, x.shape[-1:], weight, weight, 1e-5),
    "groups": lambda x, weight: torch.native_group_norm(x, weight, weight, 2, 4, 4, 2, 1e-5),
    "batches": lambda x, weight: torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", HALVES)
def test_the_function_is_told_how_exact_statistics_are(norm, dtype):
    def program(x, weight):
        made = HALVES[norm](x, weight)
        return made, [each.dtype for each in made]

    given = torch.rand(2, 4, 4).bfloat16(), torch.ones(4, dtype=dtype)
    made, told = compile_api.compile(program, backend="eager", fullgraph=True)(*given)
    assert told == [each.dtype for each in made] == program(*given)[1]


# -- what two packages know of it ----------------------------------------------------------------------------------

_FUNCTIONAL = "it writes to an argument, and aotgrad records the form that writes to none"
_OF_WRITES = "it stands for a write, which programs that are captured have; its layout is told wrong of sizes that vary"
_OF_MEMORY = "aotgrad makes the memory that the result keeps a value, and the result a view of it"
_OF_ANOTHER_TYPE = "its results lie as they are told; torch 2.11 and 2.12 err about their dtype"
IN_ONE_TABLE = {
    "aten._native_batch_norm_legit.default": _FUNCTIONAL,
    "aten.rrelu_with_noise.default": _FUNCTIONAL,
    "aten.zero.default": _OF_WRITES,
    "aten.diagonal_scatter.default": _OF_MEMORY,
    "aten.select_scatter.default": _OF_MEMORY,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _OF_ANOTHER_TYPE,
    "aten._unique2.default": _OF_ANOTHER_TYPE,
    "aten.bincount.default": _OF_ANOTHER_TYPE,
    "aten.unique_consecutive.default": _OF_ANOTHER_TYPE,
    "aten.unique_dim.default": _OF_ANOTHER_TYPE,
}


def test_both_packages_correct_torchs_fakes_of_the_same_operators():
    """They do not import one another, so each has a table: what one learns about an operator the other must know."""
    tables = (result_layouts._CORRECTIONS, memory_order._CORRECTIONS)
    ours, theirs = ({str(operator) for operator in table} for table in tables)
    assert len(ours & theirs) > 30
    assert ours ^ theirs == IN_ONE_TABLE.keys(), "add it to the other table too, or say here why not"


@pytest.mark.parametrize("name", ["indexed_order", "element_order", "viewed_order"])
def test_both_packages_order_by_the_same_text(name):
    mine, theirs = (Path(module.__file__).with_name(f"{name}.py") for module in (result_layouts, memory_order))
    assert mine.read_text() == theirs.read_text().replace("from aotgrad.", "from capture."), (
        "what one learns about the kernel the other must know"
    )


CHOSEN_BY_THE_LIBRARY = {
    "one channel": lambda x, w: F.conv2d(x[:, :1], w[:, :1]),
    "by channel": lambda x, w: F.conv2d(x, w[:, :1], groups=4),
    "one channel of the weight": lambda x, w: F.conv2d(x[:, :1].contiguous(), w[:, :1]),
    "one row": lambda x, w: F.conv2d(x[:, :, :1], w[:, :, :1]),
    "transposed": lambda x, w: F.conv_transpose2d(x[:, :1], w[:1]),
    "unpooled": lambda x, w: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
    "unpooled twice": lambda x, w: F.max_unpool2d(*F.max_pool2d(x.relu(), 2, return_indices=True), 2) * 2,
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", CHOSEN_BY_THE_LIBRARY)
def test_what_a_library_chooses_by_its_operands(name, backend, last):
    function, x, w = CHOSEN_BY_THE_LIBRARY[name], torch.randn(2, 4, 8, 6), torch.randn(4, 4, 3, 3)
    x = x.to(memory_format=torch.channels_last) if last else x
    found, expected = compile_api.compile(function, backend=backend)(x, w), function(x, w)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)
