"""Tensors that kernels cannot compute with, and ways to hand over a graph that are not the usual ones: right all the
same."""

import pytest
import torch
import torch.nn.functional as F
from compiled import copied
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import inductor

R = torch.randn


def agrees(gm, function, *inputs):
    compiled = inductor.compile(gm, inputs)
    found = compiled(*map(copied, inputs))
    expected = pytree.tree_leaves(function(*map(copied, inputs)))
    torch.testing.assert_close(list(found), expected, equal_nan=True)
    return compiled


DTYPES = {
    "eight bits": (lambda x: x.to(torch.float8_e4m3fn).float() + 1, R(4, 6)),
    "eight bits as input": (lambda x: x.float() * 2, R(4, 6).to(torch.float8_e5m2)),
    "complex": (lambda x: (x * x.conj() + 1, x.real, x.imag * 2), torch.randn(4, 5, dtype=torch.complex64)),
    "complex result": (lambda x: torch.polar(x.abs(), x + 1), R(4, 6)),
    "the imaginary part of a conjugate": (lambda x: x.conj().imag * 2 + 1, torch.randn(4, 5, dtype=torch.complex64)),
    "a view of that": (
        lambda x: (x.conj().imag.t()[1:], x.conj().imag.sum()),
        torch.randn(4, 5, dtype=torch.complex64),
    ),
    "unsigned": (lambda x: x.to(torch.float32) * 2, torch.arange(5).to(torch.uint64)),
    "overlapping": (lambda x: x * 2, torch.as_strided(R(10), (4, 4), (1, 1))),
    "expanded": (lambda x: x + 1, R(1, 5).expand(4, 5)),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_layouts(name):
    function, x = DTYPES[name]
    agrees(make_fx(function)(x), function, x)


def doubled(x):
    x.copy_(x * 2)
    return x + 1


@pytest.mark.parametrize(
    "x", [R(4, 5, dtype=torch.complex64), R(4, 5).to(torch.float8_e5m2).float(), R(5, 4, dtype=torch.complex64).t()]
)
def test_an_input_that_kernels_cannot_write(x):
    compiled = inductor.compile(make_fx(doubled)(x.clone()), [x])
    given, expected = x.clone(), x.clone()
    torch.testing.assert_close(compiled(given)[0], doubled(expected))
    torch.testing.assert_close(given, expected)


def test_an_input_without_memory_that_is_written():
    x = torch.empty(3, 4, device="meta")
    compiled = inductor.compile(make_fx(doubled)(x), [x])
    assert compiled(x)[0].device.type == "meta"


@pytest.mark.parametrize("traced_with", ["numbers", "negated numbers"])
@pytest.mark.parametrize("sizes", [(4, 5), (4, 1), ()])
def test_an_input_that_torch_negates_when_it_reads(sizes, traced_with):
    """The imaginary part of a conjugate is the memory of the number itself, and a mark."""
    negated = torch.randn(sizes, dtype=torch.complex64).conj().imag
    numbers = torch.randn(sizes, dtype=torch.complex64).imag
    function = lambda x: x * 2 + 1
    x = numbers if traced_with == "numbers" else negated
    compiled = inductor.compile(make_fx(function)(x), [x])
    for value in (negated, numbers, negated):
        assert value.is_neg() == (value is negated)
        torch.testing.assert_close(compiled(value)[0], function(value))


@pytest.mark.parametrize("x", [R(2, 3)._neg_view(), torch.arange(3)._neg_view(), torch._efficientzerotensor((2, 3))])
def test_what_the_memory_of_an_input_does_not_show(x):
    plain = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype).copy_(x)
    function = lambda x: x * 2 + 1
    compiled = inductor.compile(make_fx(function)(plain), [plain])
    torch.testing.assert_close(compiled(x)[0], function(plain))


def test_a_negated_input_is_not_written():
    z = torch.randn(5, dtype=torch.complex64)
    compiled = inductor.compile(make_fx(lambda x: x.add_(1))(z.imag), [z.imag])
    before = z.clone()
    with pytest.raises(ValueError, match="the imaginary part of a conjugate, and the graph writes to it"):
        compiled(z.conj().imag)
    assert torch.equal(z, before)
    compiled(z.imag)
    assert torch.equal(z, before + 1j)


def test_a_constant_that_torch_negates():
    module = torch.nn.Module()
    module.register_buffer("part", torch.randn(5, dtype=torch.complex64).conj().imag)
    module.forward = lambda x: x + module.part
    x = R(5)
    agrees(make_fx(module.forward)(x), module.forward, x)


def test_a_device_without_memory_runs_operator_by_operator():
    x = torch.empty(3, 4, device="meta")
    compiled = inductor.compile(make_fx(lambda x: (x * 2).sum(0))(x), [x])
    (found,) = compiled(x)
    assert (found.device.type, found.shape) == ("meta", (4,))
    assert compiled.kernels == ()


NOT_PLAIN = {
    "of layout": (lambda x: x.to_sparse(), lambda x: x.to_dense() * 2),
    "quantized": (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), lambda x: x.dequantize() * 2),
}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("kind", NOT_PLAIN)
def test_inputs_that_are_not_plain_run_operator_by_operator(kind):
    make, function = NOT_PLAIN[kind]
    x = make(R(4, 6))
    with pytest.warns(RuntimeWarning, match=f"runs operator by operator: input 0 is {kind}"):
        compiled = inductor.compile(torch.fx.symbolic_trace(function), [x])
    assert torch.equal(compiled(x)[0], function(x))


SHARING = {
    "one tensor twice": lambda base: (base, base),
    "what overlaps": lambda base: (base[1:], base[:-1]),
    "what is written lies inside": lambda base: (base[1:3], base),
    "what is read lies inside": lambda base: (base, base[1:3]),
}


@pytest.mark.parametrize("name", SHARING)
@pytest.mark.parametrize("tracer", [lambda f, *_: torch.fx.symbolic_trace(f), lambda f, *given: make_fx(f)(*given)])
def test_a_written_input_that_shares_memory_with_another(name, tracer):
    def function(x, y):
        x.add_(1)
        return (y * 2).sum(0)

    like = [torch.ones(value.shape) for value in SHARING[name](torch.ones(4, 4))]
    gm, (ours, expected) = tracer(function, *like), (torch.ones(4, 4), torch.ones(4, 4))
    with pytest.warns(RuntimeWarning, match="share memory, and the graph writes to it"):
        compiled = inductor.compile(gm, SHARING[name](torch.ones(4, 4)))
    torch.testing.assert_close(compiled(*SHARING[name](ours))[0], function(*SHARING[name](expected)))
    assert torch.equal(ours, expected)


def test_inputs_that_share_memory_and_are_not_written_or_lie_side_by_side():
    base = R(6, 5)
    agrees(torch.fx.symbolic_trace(lambda x, y: x + y), torch.add, base[1:], base[:-1])
    gm = torch.fx.symbolic_trace(lambda x, y: x.copy_(y))
    compiled = inductor.compile(gm, [base[:3], base[3:]], options={"fallback": False})
    compiled(base[:3], base[3:])
    assert torch.equal(base[:3], base[3:])


OUTPUTS = {
    "nothing": lambda x: None,
    "the input": lambda x: x,
    "the input twice": lambda x: (x, x, x.t()),
    "numbers": lambda x: (3, 2.5, True, x + 1),
    "a dictionary": lambda x: {"a": (x, [x + 1]), "b": x * 2},
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_all_kinds(name):
    function, x = OUTPUTS[name], R(4, 6)
    found = inductor.compile(make_fx(function)(x), [x])(x)
    for result, value in zip(found, pytree.tree_leaves(function(x)), strict=True):
        assert torch.equal(result, value) if isinstance(value, torch.Tensor) else result == value


DYNAMIC = {
    "a view of sizes": lambda x: x.view(x.shape[0] * x.shape[1]) + x.shape[0],
    "halves": lambda x: x[: x.shape[0] // 2] + x[x.shape[0] // 2 :][: x.shape[0] // 2],
    "padding by a size": lambda x: F.pad(x, (0, x.shape[0])),
    "windows": lambda x: x.unfold(0, 3, 1).sum(-1),
    "numbers from sizes": lambda x: x * max(x.shape[0], x.shape[1]) + x.numel(),
    "rounded up": lambda x: F.avg_pool1d(x[None], 3, 2, ceil_mode=True),
    "rows backwards": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)],
    "expanded": lambda x: x[:, None].expand(-1, x.shape[1], -1).softmax(1).sum(1),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long)),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_one_graph_for_many_sizes(name):
    function = DYNAMIC[name]
    x = R(8, 9)
    compiled = inductor.compile(make_fx(function, tracing_mode="symbolic")(x), [x], options={"fallback": False})
    for value in (x, R(11, 12), R(15, 16)):
        torch.testing.assert_close(compiled(value)[0], function(value))


def test_what_is_spread_over_no_larger_size_is_written():
    def fill(x):
        x.expand(1, 3).fill_(1.0)
        return x + 0

    x = torch.tensor([1e9, float("inf"), 3e38])
    assert inductor.compile(fx.symbolic_trace(fill), [x.clone()])(x)[0].tolist() == [1, 1, 1]
    assert x.tolist() == [1, 1, 1]
