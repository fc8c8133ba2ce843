"""Which results lie in one memory is as eager has it, whatever was found to be computed twice."""

import itertools

import pytest
import torch

import compile_api

BACKENDS = ("eager", "aot_eager", "inductor")
PROGRAMS = {
    "places of what is sorted": lambda x: (x.sort()[1], x.argsort(), x.sort(stable=True)[0]),
    "values and places": lambda x: (x.max(0)[0], x.max(0)[0], x.max(0)[1], x.cummax(0)[0], x.cummax(0)[0]),
    "one of three is used": lambda x: ((x.exp() * 2).sum(), x.exp(), x.exp()),
    "a view and a value": lambda x: (x.exp().t(), x.exp()),
    "pieces": lambda x: ((x + 1).split(1)[0], (x + 1).split(1)[0], (x * 2).unbind()[0], (x * 2).unbind()[0]),
    "several results": lambda x: (*torch.var_mean(x, 0), *torch.var_mean(x, 0)),
    "factors": lambda x: (*torch.linalg.eigh(x @ x.t()), *torch.linalg.eigh(x @ x.t())),
    "new tensors": lambda x: (torch.zeros(2), torch.zeros(2), torch.arange(3), torch.arange(3), torch.tensor([1.0])),
    "expanded": lambda x: (x.sum().expand(2), x.sum().expand(2)),
    "the largest": lambda x: (*x.topk(2), *x.topk(2)),
    "other types and layouts": lambda x: (x.double(), x.double(), x.t().contiguous(), x.t().contiguous()),
    "flat": lambda x: (x.t().contiguous(), x.t().flatten(), x.t().reshape(-1)),
    "copies": lambda x: (x.clone(), x.clone(), torch.cat([x, x]), torch.cat([x, x])),
}


def shared(results):
    """The pairs of results in one memory."""
    places = [result.untyped_storage().data_ptr() for result in results]
    return [(a, b) for a, b in itertools.combinations(range(len(places)), 2) if places[a] == places[b]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_share_memory_as_eagers_do(name, trains, backend):
    x = torch.randn(3, 3)
    compiled = compile_api.compile(PROGRAMS[name], backend=backend)
    expected = shared(PROGRAMS[name](x.clone().requires_grad_(trains)))
    assert shared(compiled(x.clone().requires_grad_(trains))) == expected
