"""Sparse gradients that arrive at results go back as eager's do, and stay sparse where those do."""

import pytest
import torch
from torch.nn import functional as nnf

import aotgrad

MAKERS = {
    "scaled": lambda w, v: w * 2,
    "negative": lambda w, v: -w,
    "product": lambda w, v: w * v,
    "sum": lambda w, v: w + v,
    "quotient": lambda w, v: w / 4,
    "itself": lambda w, v: w.clone(),
    "view": lambda w, v: w.view(6, 3),
    "turned twice": lambda w, v: w.t().clone().t(),
    "turned": lambda w, v: w.view(3, 6).t() * 2,
    "root": lambda w, v: w.abs().sqrt(),
    "matrix product": lambda w, v: w @ v[:3],
    "two results": lambda w, v: (w * 2, w * v),
    "one of another": lambda w, v: (y := w * 2, y * 3),
    "written": lambda w, v: (w * 2).mul_(3),
}
INDEX = torch.tensor([4, 1, 4])
READERS = {
    "embedding": lambda y: nnf.embedding(INDEX, y, sparse=True).sum(),
    "bag": lambda y: nnf.embedding_bag(INDEX[None], y, sparse=True, mode="sum").sum(),
    "gather": lambda y: torch.gather(y, 0, INDEX[:, None], sparse_grad=True).sum(),
}


def outcome(function, read, create):
    w, v = (torch.linspace(a, 2, 18).view(6, 3).requires_grad_() for a in (0.5, 1))
    results = function(w, v)
    loss = sum(map(read, results if isinstance(results, tuple) else (results,)))
    try:
        found = torch.autograd.grad(loss, (w, v), allow_unused=True, create_graph=create)
    except (RuntimeError, NotImplementedError) as error:
        return type(error)
    return [(None, None) if each is None else (each.layout, each.detach().to_dense()) for each in found]


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_they_go_back_as_in_eager(maker, reader, create):
    compiled = aotgrad.function(MAKERS[maker], forward=aotgrad.run_eagerly)
    for _ in range(2):
        found, expected = (outcome(each, READERS[reader], create) for each in (compiled, MAKERS[maker]))
        if isinstance(expected, type):
            assert isinstance(found, type)
        else:
            for (layout, ours), (wanted, theirs) in zip(found, expected, strict=True):
                assert layout == wanted
                torch.testing.assert_close(ours, theirs)
