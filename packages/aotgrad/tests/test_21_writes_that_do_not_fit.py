"""Writes that eager refuses, or makes element by element: a graph would make something else of them."""

import pytest
import torch

import aotgrad
from aotgrad.misfits import refuse_misfits

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
