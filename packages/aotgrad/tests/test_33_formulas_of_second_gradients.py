"""Operators whose backward is computed by another formula where a graph of the gradients is wanted."""

import math
import random

import pytest
import torch
import torch.nn.functional as F

import aotgrad
from aotgrad.backward import create_graph_formulas

PARTITIONS = [aotgrad.default_partition, aotgrad.min_cut_partition]
det, slogdet, solve = torch.linalg.det, torch.linalg.slogdet, torch.linalg.solve


def written(z, by):
    result = z.clone()
    result[0] = z[0] * by
    result[..., 1:] = z[..., 1:] ** 2
    return result


PROGRAMS = {
    "det": lambda m, x: det(m),
    "det of a transposed one": lambda m, x: det(m.sin().mT) ** 2,
    "slogdet": lambda m, x: slogdet(m)[1].sum() * m,
    "logdet": lambda m, x: torch.logdet(m @ m.mT),
    "solve": lambda m, x: solve(m, x),
    "solve from the right": lambda m, x: solve(m, x, left=False),
    "solve_ex": lambda m, x: torch.linalg.solve_ex(m, x)[0],
    "solve for a vector": lambda m, x: solve(m, x.flatten()[: m.shape[:-1].numel()].view(m.shape[:-1])),
    "tensorsolve": lambda m, x: torch.linalg.tensorsolve(m.reshape(-1, 2)[:2].view(2, 1, 2), x.flatten()[:2]),
    "inv": lambda m, x: torch.linalg.inv(m) @ x,
    "inv_ex": lambda m, x: torch.linalg.inv_ex(m)[0] @ x,
    "cumprod": lambda m, x: torch.cumprod(m, 0) * x,
    "prod": lambda m, x: torch.prod(m, 0) * x,
    "one in another": lambda m, x: det(m).sum() * slogdet(m)[1].sin().sum() * solve(m, m * x),
    "complex": lambda m, x: det(torch.complex(m, m * x)).abs() + slogdet(torch.complex(m, x))[0].imag,
    "rfft": lambda m, x: torch.fft.rfft(m.flatten() * x.sum()).abs(),
    "a complex item written": lambda m, x: written(torch.complex(m, m * m), x.sum()).abs(),
    "stft": lambda m, x: torch.stft(m.flatten()[:4].repeat(4), 4, window=torch.ones(4), return_complex=True).abs(),
    "a sum with what went in": lambda m, x: (m.sin() + m) ** 2,
    "sums of sums": lambda m, x: ((m * x).tanh() + m).exp() + (x.exp() + x).sin(),
    "written in place": lambda m, x: (m - x).sin_().add_(m) ** 2,
    "mish": lambda m, x: torch.nn.functional.mish(m * x) ** 2,
    "a constant matrix": lambda m, x: solve(m.detach(), x * x),
    "a constant right side": lambda m, x: solve(m, x.detach()) * x,
}
SHAPES = {"one": ((2, 2), (2, 2)), "batch": ((3, 2, 2), (3, 2, 2)), "two for three": ((2, 2), (3, 2, 2))}


def twice(f, shapes):
    generator = torch.Generator().manual_seed(0)
    m, x = (torch.randn(shape, dtype=torch.double, generator=generator) for shape in shapes)
    m = (m + 3 * torch.eye(2)).requires_grad_()
    x.requires_grad_()
    first = torch.autograd.grad(f(m, x).sum(), (m, x), create_graph=True, allow_unused=True)
    total = sum(gradient.square().sum() for gradient in first if gradient is not None)
    return first, torch.autograd.grad(total, (m, x), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_gradients_are_of_the_formula_that_a_graph_takes(name, shapes, partition):
    f = PROGRAMS[name]
    ours = aotgrad.function(f, forward=aotgrad.run_eagerly, partition=partition)
    torch.testing.assert_close(twice(ours, shapes), twice(f, shapes))


def test_a_second_gradient_at_a_singular_matrix_is_refused():
    m = torch.ones(2, 2, requires_grad=True)
    ours = aotgrad.function(det, forward=aotgrad.run_eagerly)
    torch.autograd.grad(ours(m), m)
    with pytest.raises(RuntimeError, match="gradients of gradients of `det` at a singular matrix"):
        torch.autograd.grad(ours(m), m, create_graph=True)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_second_gradient_of_a_running_product_with_a_zero_is_refused(partition):
    ours = aotgrad.function(lambda v: torch.cumprod(v, 0), forward=aotgrad.run_eagerly, partition=partition)
    v = torch.tensor([2.0, 0.0, 3.0], requires_grad=True)
    torch.autograd.grad(ours(v).sum(), v)
    with pytest.raises(RuntimeError, match="gradients of gradients of `cumprod` of elements of which one is zero"):
        torch.autograd.grad(ours(v).sum(), v, create_graph=True)


SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, math.inf, -math.inf, 2.5], dtype=torch.double)
TAKEN_APART = {
    "logsigmoid": F.logsigmoid,
    "its square": lambda x: F.logsigmoid(x) ** 2,
    "multilabel_soft_margin": lambda x: F.multilabel_soft_margin_loss(x, torch.ones_like(x)),
    "glu": lambda x: F.glu(x),
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x)),
    "prelu by a constant": lambda x: F.prelu(x, torch.tensor([0.2], dtype=x.dtype)),
    "nll": lambda x: F.nll_loss(x.view(2, 5), torch.tensor([1, 2])),
    "cross_entropy": lambda x: F.cross_entropy(x.clamp(-9, 9).view(2, 5), torch.tensor([1, 2])),
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "rrelu": lambda x: F.rrelu(x, training=True),
    "rrelu_": lambda x: F.rrelu_(x * 2, training=True),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", TAKEN_APART)
def test_second_gradients_are_of_the_operator_and_not_of_its_parts(name, partition, dynamic):
    f = TAKEN_APART[name]
    apart = {"decompositions": aotgrad.decompositions.core(), "partition": partition, "dynamic": dynamic}
    found = []
    for function in (f, aotgrad.function(f, forward=aotgrad.run_eagerly, **apart)):
        torch.manual_seed(0)
        x = SPECIAL.clone().requires_grad_()
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        assert first.requires_grad
        found.append((first, torch.autograd.grad(first.square().sum(), x)[0]))
    torch.testing.assert_close(*found, equal_nan=True)


def test_a_result_that_was_there_before_is_no_part():
    """A rule that gives its operand back says nothing of what made that."""
    rules = {torch.ops.aten.relu.default: lambda x: x}
    f = aotgrad.function(lambda x: torch.relu(x.exp()) * x, forward=aotgrad.run_eagerly, decompositions=rules)
    x = torch.ones(2, requires_grad=True)
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x)[0], 3 * x.detach().exp())


def test_whose_backward_solves_with_what_forward_found():
    """The table is of torch's operators that keep factors for their backward, as autograd's nodes say."""
    m = torch.eye(2, requires_grad=True)
    kept = {
        "_linalg_det": torch.linalg.det(m),
        "_linalg_slogdet": torch.linalg.slogdet(m)[1],
        "_linalg_solve_ex": torch.linalg.solve(m, m.detach()),
    }
    assert all(hasattr(value.grad_fn, "_saved_LU") for value in kept.values())
    assert {factors.overloadpacket.__name__ for factors in create_graph_formulas._FACTORS} == {*kept}


def drawn(draw, depth=3):
    """A function of one tensor, of sums and products of elementary functions, as text."""
    if not depth or draw.random() < 0.2:
        return "x"
    inner, other = drawn(draw, depth - 1), drawn(draw, depth - 1)
    kinds = [f"({inner} + {other})", f"({inner} * {other})", f"({inner} - {other})", f"({inner}) ** 2"]
    kinds += [f"({inner}).{name}()" for name in ("sin", "tanh", "exp", "sigmoid", "cos", "atan", "square", "relu")]
    return draw.choice([*kinds, f"torch.nn.functional.silu({inner})", f"({inner} + {other}).sin_()"])


@pytest.mark.parametrize("partition", PARTITIONS)
def test_second_gradients_of_functions_that_are_drawn(partition):
    draw = random.Random()
    for _ in range(60):
        text = drawn(draw)
        f = eval(f"lambda x: {text}", {"torch": torch})
        x = (torch.rand(3, dtype=torch.double) - 0.5).requires_grad_()
        found = []
        for function in (f, aotgrad.function(f, forward=aotgrad.run_eagerly, partition=partition)):
            first = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
            found.append((first, torch.autograd.grad(first.square().sum(), x)[0] if first.requires_grad else None))
        torch.testing.assert_close(*found, msg=text)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["rrelu", "rrelu_"])
def test_second_gradients_go_through_slopes_that_are_drawn(name, training):
    found = []
    for function in (
        f := lambda x: getattr(torch, name)(x * 2, 0.1, 0.4, training) ** 2,
        aotgrad.function(f, forward=aotgrad.run_eagerly),
    ):
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 7).requires_grad_()
        result = function(x)
        (first,) = torch.autograd.grad(result.sum(), x, create_graph=True)
        found.append((result, first, torch.autograd.grad(first.square().sum(), x)[0], torch.rand(2)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("dim", [0, 1])
def test_second_gradients_of_a_weight_norm_are_those_of_its_formula(dim):
    """Torch's own take the norms for constants (docs/faq.md)."""
    plain = lambda v, g: (g * v / v.norm(dim=1 - dim, keepdim=True)).sin()
    ours = aotgrad.function(lambda v, g: torch._weight_norm(v, g, dim).sin(), forward=aotgrad.run_eagerly)
    v, g = (torch.randn(3, 4, dtype=torch.double, requires_grad=True) for _ in range(2))
    g = g.detach().select(1 - dim, 0).unsqueeze(1 - dim).clone().requires_grad_()
    found = []
    for function in (ours, plain):
        first = torch.autograd.grad(function(v, g).sum(), (v, g), create_graph=True)
        found.append((first, torch.autograd.grad(sum(each.square().sum() for each in first), (v, g))))
    torch.testing.assert_close(*found)


VIEWS = {
    "itself": lambda y: y,
    "view": lambda y: y.view(16),
    "transposed": lambda y: y.t(),
    "item": lambda y: y[1],
    "slice": lambda y: y[1:3],
    "all of it": lambda y: y[0:4],
    "diagonal": lambda y: y.diagonal(),
    "by strides": lambda y: y.as_strided((3, 2), (5, 1)),
    "all by strides": lambda y: y.as_strided((4, 4), (4, 1)),
    "of a view": lambda y: y.view(2, 8)[1].view(2, 4).t(),
}
WRITES = {
    "copy_": lambda v, x: v.copy_(x.flatten()[: v.numel()].view(v.shape)),
    "copy_ of a number": lambda v, x: v.copy_(torch.ones(())),
    "fill_": lambda v, x: v.fill_(x[0, 0]),
    "zero_": lambda v, x: v.zero_(),
    "mul_": lambda v, x: v.mul_(x[0, 0]),
    "setitem": lambda v, x: v.__setitem__(..., x[0, 1]),
    "sin_": lambda v, x: v.sin_(),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("power", [1, 2])
def test_of_what_is_written_over_through_a_view(view, write, power):
    def f(y, x):
        WRITES[write](VIEWS[view](y), x)
        return y.sin() * x

    def gradients(fn):
        torch.manual_seed(0)
        y, x = (torch.randn(4, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
        first = torch.autograd.grad(fn(y * 1, x).pow(power).sum(), (y, x), create_graph=True)
        followed = [each.requires_grad for each in first]
        loss = sum(each.pow(power).sum() for each in first if each.requires_grad)
        return followed, first, torch.autograd.grad(loss, (y, x), allow_unused=True)

    compiled = aotgrad.function(f, forward=aotgrad.run_eagerly, backward=aotgrad.run_eagerly)
    torch.testing.assert_close(gradients(compiled), gradients(f))
