"""Numbers and sizes that only the data can tell, through all packages: right for every input, and one graph."""

import pytest
import torch

import compile_api

PROGRAMS = {
    "a mean over a mask": lambda a: (a[a > 2].sum() / a[a > 2].numel(),),
    "positions": lambda a: (a.nonzero() * 2, a[a > 2] + 1),
    "unique": lambda a: (torch.unique(a.long()) + 1,),
    "two masks": lambda a: (torch.cat([a[a > 2], a[a < 2]]), len(a[a > 2])),
    "a new tensor of that size": lambda a: (torch.zeros(a[a > 1].shape[0], 2) + 1,),
    "a scale": lambda a: (a / (a.abs().max().item() + 1), a.sum().item()),
    "a count": lambda a: (a * (a > 2).sum().item(), (a > 2).sum().item() + 1),
    "a gradient": lambda a: torch.autograd.grad((a[a > 2] ** 2).sum(), a),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_tensors(name):
    program = PROGRAMS[name]
    compiled = compile_api.compile(program, fullgraph=True)
    for shift in (0.0, 1.5, 4.0, 100.0):
        given = (torch.arange(12.0).reshape(3, 4) - shift).requires_grad_(name == "a gradient")
        torch.testing.assert_close(compiled(given), program(given), equal_nan=True)
