"""Random numbers computed inside kernels, on demand."""

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

X = torch.ones(64, 333)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Empty at first; what starts the kernels, the largest of all that is built, is built once for all tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _private_cache(cache, monkeypatch):
    monkeypatch.setenv("COMPILE_API_CACHE", str(cache))


def compiled(function, *inputs, **options):
    gm = make_fx(function)(*inputs)
    return inductor.compile(gm, inputs, options={"fallback": False, "random": "fused", **options})


def seeded(graph, *inputs, seed=0):
    torch.manual_seed(seed)
    return graph(*inputs)[0]


def test_dropout_is_one_kernel_and_one_draw_of_a_seed():
    graph = compiled(lambda x: F.dropout(x * 2, 0.25) + 1, X)
    assert len(graph.kernels) == 1
    assert graph.report.fallbacks == ()
    found = seeded(graph, X)
    assert set(found.unique().tolist()) == {1.0, torch.tensor(2 / 0.75 + 1).item()}
    assert abs((found > 1).float().mean() - 0.75) < 0.01


def test_manual_seed_makes_it_reproducible():
    graph = compiled(lambda x: torch.rand_like(x), X)
    assert torch.equal(seeded(graph, X), seeded(graph, X))
    assert not torch.equal(seeded(graph, X), seeded(graph, X, seed=1))
    torch.manual_seed(0)
    assert not torch.equal(graph(X)[0], graph(X)[0])


def test_every_operator_has_numbers_of_its_own():
    found = seeded(compiled(lambda x: torch.stack([torch.rand_like(x), torch.rand(64, 333)]), X), X)
    assert abs(torch.corrcoef(found.flatten(1))[0, 1]) < 0.02
    assert abs(found.mean() - 0.5) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_normal_numbers(dtype):
    found = seeded(compiled(lambda x: torch.randn_like(x), X.to(dtype)), X.to(dtype))
    assert found.dtype == dtype
    assert abs(found.float().mean()) < 0.02
    assert abs(found.float().std() - 1) < 0.02


def test_the_mask_of_a_dropout_is_the_same_in_all_its_uses():
    def function(x):
        output, mask = torch.ops.aten.native_dropout(x, 0.5, True)
        return output * mask - output, mask.sum()

    difference, count = compiled(function, X)(X)
    assert not difference.any()
    assert abs(count / X.numel() - 0.5) < 0.02


def test_the_order_of_an_output_in_memory_does_not_change_its_numbers():
    turned = X.t().contiguous().t()
    plain, other = (compiled(lambda x: torch.rand_like(x), x) for x in (X, turned))
    assert torch.equal(seeded(plain, X), seeded(other, turned))


def test_by_default_numbers_are_eagers():
    graph = compiled(lambda x: torch.rand_like(x), X, random="eager")
    torch.manual_seed(0)
    assert torch.equal(seeded(graph, X), (torch.manual_seed(0), torch.rand_like(X))[1])
    assert "torch's own stream" in graph.report.fallbacks[0].reason
    with pytest.raises(ValueError, match="eager"):
        compiled(lambda x: x, X, random="other")
