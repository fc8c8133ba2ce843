"""A branch on what an operator drew is not asked again in a guard: that would draw the program's next numbers."""

import pytest
import torch
import torch.nn.functional as F

import capture

DRAWS = {
    "bernoulli": lambda p: torch.bernoulli(p),
    "method": lambda p: p.bernoulli(),
    "in place": lambda p: p.bernoulli_(0.5),
    "dropout": lambda p: F.dropout(p),
    "alpha dropout": lambda p: F.alpha_dropout(p, training=True) > 0.5,
    "normal": lambda p: torch.normal(p, 1.0) > 0.5,
    "rand_like": lambda p: torch.rand_like(p) > 0.5,
    "randint_like": lambda p: torch.randint_like(p, 2),
    "poisson": lambda p: torch.poisson(p),
    "multinomial": lambda p: p.multinomial(1),
    "rrelu": lambda p: F.rrelu(-p, training=True) < -0.12,
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_program_draws_what_it_draws_in_eager(name):
    def program(mask):
        p = mask.float() * 0.5
        if DRAWS[name](p)[0]:
            return mask + 1
        return mask - 1

    def seen(function):
        torch.manual_seed(3)
        return [function(torch.ones(2, dtype=torch.int64)).tolist() for _ in range(8)], torch.rand(1).item()

    capture.reset()
    assert seen(capture.optimize("eager")(program)) == seen(program)


def test_a_branch_that_draws_nothing_needs_no_break():
    def program(mask):
        return mask + 1 if F.dropout(mask.float(), 0.0).any() else mask - 1

    capture.reset()
    compiled = capture.optimize("eager", nopython=True)(program)
    for mask in (torch.ones(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)):
        assert torch.equal(compiled(mask), program(mask))
