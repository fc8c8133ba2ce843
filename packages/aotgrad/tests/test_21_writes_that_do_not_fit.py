"""Writes that eager refuses, or makes element by element: a graph would make something else of them."""

import itertools
import operator

import pytest
import torch
import torch.nn.functional as F

import aotgrad
from aotgrad.errors import FailsOnFakes
from aotgrad.pre_autograd.mismatched_operands import refuse_misfits

INTS, FLOATS, MORE = torch.arange(3), torch.full((3,), 2.5), torch.arange(1.0, 7.0).reshape(2, 3)


def assigned(index, of):
    def program(x):
        x[index] = x[of]
        return x

    return program


REFUSED = {
    "number": (lambda x: x.mul_(0.5), INTS),
    "tensor": (lambda x, y: x.addcmul_(y, y), INTS, FLOATS),
    "complex": (lambda x, y: x.add_(y), FLOATS, FLOATS.cfloat()),
    "out": (lambda x, y: torch.exp(y, out=x), INTS, FLOATS),
    "out of a product": (lambda x, y: torch.mm(y, y, out=x), INTS.reshape(1, 3), torch.ones(3, 3)),
    "list": (lambda x: torch._foreach_mul_([x], 0.5), INTS),
    "shifted": (assigned((slice(None), slice(1, None)), (slice(None), slice(0, -1))), MORE),
    "indexed": (assigned([1, 0], ...), MORE),
}
TAKEN = {
    "copied": (lambda x, y: x.copy_(y), INTS, FLOATS),
    "numbers": (lambda x: x.mul_(2), INTS),
    "compared": (lambda x, y: torch.gt(y, 1, out=x), INTS.bool(), FLOATS),
    "filled": (lambda x, y: x.masked_fill_(y > 1, 3), INTS, FLOATS),
    "added in half": (lambda x, y: x.add_(y), FLOATS.half(), FLOATS),
    "drawn": (lambda x: x.bernoulli_(0.5), INTS),
    "rows": (assigned(0, 1), MORE),
    "itself": (assigned(..., ...), MORE),
}


@pytest.mark.parametrize("case", REFUSED)
def test_is_refused(case):
    program, *given = REFUSED[case]
    with pytest.raises(RuntimeError):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(*(x.clone() for x in given))


@pytest.mark.parametrize("case", TAKEN)
def test_is_taken(case):
    program, *given = TAKEN[case]
    seen = []
    for each in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        torch.manual_seed(0)
        own = [x.clone() for x in given]
        seen.append([*own, each(*own)])
    torch.testing.assert_close(*seen)


LARGE = [10**7, 10**7]
FILLS = {
    "full": (torch.full, (LARGE, 255.0), {"dtype": torch.uint8}),
    "size by name": (torch.full, (), {"size": LARGE, "fill_value": 255.0, "dtype": torch.uint8}),
    "new_full": (torch.Tensor.new_full, (FLOATS.bfloat16(), LARGE, 255.0), {}),
    "pad": (torch.nn.functional.pad, (MORE, LARGE * 2, "constant", 255), {}),
}


@pytest.mark.parametrize("case", FILLS)
def test_no_large_result_is_made_to_ask(case):
    func, args, kwargs = FILLS[case]  # a hundred terabytes
    refuse_misfits(func, args, kwargs)


BY_ELEMENT = (
    "add_", "sub_", "mul_", "div_", "pow_", "remainder_", "fmod_", "floor_divide_", "divide_", "atan2_", "arctan2_",
    "copysign_", "hypot_", "igamma_", "igammac_", "xlogy_", "nextafter_", "heaviside_", "lt_", "less_", "le_",
    "less_equal_", "gt_", "greater_", "ge_", "greater_equal_", "eq_", "ne_", "not_equal_", "clamp_", "clamp_min_",
    "clamp_max_", "clip_", "logical_and_", "logical_or_", "logical_xor_", "bitwise_and_", "bitwise_or_", "bitwise_xor_",
    "bitwise_left_shift_", "bitwise_right_shift_", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__",
    "masked_fill_", "lerp_", "gcd_", "lcm_", "ldexp_", "multiply_", "subtract_", "true_divide_",
    "addcmul_", "addcdiv_",
)  # fmt: skip
SHAPES = ((), (1,), (2,), (0,), (1, 2), (2, 2), (1, 0))
REST = {"masked_fill_": (1,), "lerp_": (0.5,), "addcmul_": (torch.ones(()),), "addcdiv_": (torch.ones(()),)}


def refuses(call):
    try:
        call()
    except (RuntimeError, FailsOnFakes):
        return True
    return False


@pytest.mark.parametrize("name", BY_ELEMENT)
def test_what_is_larger_than_its_place(name):
    """Everything that torch writes by element, of every pair of sizes that could be one: what eager takes is taken."""
    method, found = getattr(torch.Tensor, name), 0
    for dtype, (size, other) in itertools.product(
        (torch.float32, torch.int64, torch.bool), itertools.product(SHAPES, repeat=2)
    ):
        given = (torch.ones(other, dtype=dtype), *REST.get(name, ()))
        if refuses(lambda: method(torch.ones(other, dtype=dtype), *given)):
            continue
        if refuses(lambda: torch.broadcast_shapes(size, other)):
            continue
        refused = refuses(lambda: method(torch.ones(size, dtype=dtype), *given))
        assert refuses(lambda: refuse_misfits(method, (torch.ones(size, dtype=dtype), *given), {})) is refused
        found += refused
    assert found


@pytest.mark.parametrize("function", [operator.ipow, operator.ifloordiv, operator.imod, operator.iand])
@pytest.mark.parametrize("size", [(), (1,), (1, 2), (2,)])
def test_operators_in_place_refuse_what_is_larger(function, size):
    kind = torch.int64 if function is operator.iand else torch.float32
    compiled = aotgrad.function(lambda x, y: function(x.clone(), y), forward=aotgrad.run_eagerly)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):  # eager's own
        compiled(torch.ones(size, dtype=kind), torch.ones((2, 2), dtype=kind))


def test_a_product_of_another_type_is_refused_where_sizes_vary():
    """Torch's rule in Python, which is taken there, asks for no type."""
    compiled = aotgrad.function(lambda a, x: torch.matmul(a, a, out=x), forward=aotgrad.run_eagerly, dynamic=True)
    with pytest.raises(RuntimeError, match="result dtype"):
        compiled(torch.ones(3), torch.ones((), dtype=torch.bfloat16))


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool)
OF_SOME_TYPES = {
    "interpolate": lambda x, y: F.interpolate(x, (3, 3), mode="bilinear"),
    "hardshrink": lambda x, y: F.hardshrink(x, 0.5),
    "group norm": lambda x, y: F.group_norm(x, 1, y[0, :, 0, 0], y[0, :, 0, 0]),
    "cross": lambda x, y: torch.linalg.cross(x, y, dim=1),
    "multi_margin_loss": lambda x, y: F.multi_margin_loss(x[0, 0], y[0, 0, :, 0]),
    "embedding": lambda x, y: F.embedding(y, x[0, 0]),
    "where": lambda x, y: torch.where(y, x, 2),
    "sum": lambda x, y: torch.sum(x, 0) + y,
}


@pytest.mark.parametrize("name", OF_SOME_TYPES)
def test_types_are_refused_where_sizes_vary_as_elsewhere(name):
    """What eager takes is taken, and nothing else; torch's rules in Python, which are taken there, take more."""
    program = OF_SOME_TYPES[name]
    pairs = itertools.product(TYPES, TYPES)
    for kind, other in [pair for pair in pairs if torch.float32 in pair or pair[0] == pair[1]]:
        x, y = torch.ones(2, 3, 4, 4, dtype=kind), torch.ones(2, 3, 4, 4, dtype=other)
        compiled = aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=True)
        assert refuses(lambda: compiled(x, y)) is refuses(lambda: program(x, y)), (kind, other)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("function", [F.dropout, F.dropout2d, torch.dropout_, torch.feature_dropout])
def test_noise_is_of_the_type_of_what_it_is_for(function, kind):
    x, state = torch.ones(2, 3, 4, 4, dtype=kind), torch.random.get_rng_state()
    refused, drawn = refuses(lambda: function(x.clone(), 0.5, True)), torch.random.get_rng_state()
    torch.random.set_rng_state(state)
    compiled = aotgrad.function(lambda x: function(x.clone(), 0.5, True), forward=aotgrad.run_eagerly)
    assert refuses(lambda: compiled(x)) is refused
    assert torch.equal(torch.random.get_rng_state(), drawn)
