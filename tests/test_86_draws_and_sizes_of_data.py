"""Random numbers decide a size: they are drawn by forward, and by backward never again."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import compile_api

DRAWS = {
    "rand": lambda n: torch.rand(n) > 0.5,
    "randn": lambda n: torch.randn(n) > 0,
    "randint": lambda n: torch.randint(0, 2, (n,)) > 0,
    "randperm": lambda n: torch.randperm(n) > 2,
    "bernoulli": lambda n: torch.bernoulli(torch.full((n,), 0.5)) > 0,
    "rand_like": lambda n: torch.rand_like(torch.empty(n)) > 0.5,
    "normal": lambda n: torch.normal(0.0, 1.0, (n,)) > 0,
    "dropout": lambda n: F.dropout(torch.ones(n), 0.5) > 0,
}
PICKS = {
    "mask": lambda x, kept: x[kept],
    "nonzero": lambda x, kept: x[kept.nonzero()[:, 0]],
    "masked_select": lambda x, kept: x.masked_select(kept[:, None]),
    "repeat_interleave": lambda x, kept: x.repeat_interleave(kept.long(), 0),
}
CASES = [*itertools.product(["aot_eager"], DRAWS, PICKS), *itertools.product(["inductor"], DRAWS, ["mask"])]


@pytest.mark.parametrize(("backend", "draw", "pick"), CASES)
def test_backward_draws_nothing_again(backend: str, draw: str, pick: str) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        kept = PICKS[pick](x, DRAWS[draw](x.shape[0]))
        loss = F.mse_loss(kept, kept.detach() * 2)
        return [kept.mean(0), kept.sum(0), torch.cat([kept, kept * 2]), kept.log_softmax(0), loss]

    compiled = compile_api.compile(function, backend=backend, dynamic=True)
    for size in (6, 10):
        expected, actual = (_step(run, size) for run in (function, compiled))
        torch.testing.assert_close(actual, expected)


def _step(run, size: int) -> list[torch.Tensor]:
    torch.manual_seed(size)
    x = torch.linspace(0, 1, size * 2).view(size, 2).requires_grad_()
    sum(part.square().sum() for part in run(x)).backward()
    return [x.grad, torch.rand(3)]
