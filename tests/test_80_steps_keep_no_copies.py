"""Whole training steps keep no copies of what they write: a copy of each parameter costs as much as its update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import compile_api
from capture.recording import rollback

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {},
    "AdamW": {},
    "RMSprop": {},
    "Adagrad": {},
    "NAdam": {},
    "Adadelta": {},
    "Adamax": {},
}


def a_step(name: str, foreach: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """A whole step over equal layers with running statistics, its gradients clipped."""
    torch.manual_seed(0)
    layers = (nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU()) for _ in range(6))
    model = nn.Sequential(*layers)
    optimizer = getattr(torch.optim, name)(model.parameters(), foreach=foreach, **OPTIMIZERS[name])

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_copies_nothing_ahead(name: str, foreach: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[torch.Tensor] = []
    x, of_eager, compiled = torch.randn(4, 8), a_step(name, foreach), compile_api.compile(a_step(name, foreach))
    losses = [compiled(x) for _ in range(3)]
    monkeypatch.setattr(
        rollback, "_Kept", kept.append
    )  # were it called, `put_back` would be missed only after an error
    losses.append(compiled(x))
    torch.testing.assert_close(losses, [of_eager(x) for _ in range(4)], rtol=1e-3, atol=1e-4)
    assert not kept


@pytest.mark.parametrize("grad", [False, True])
def test_updates_of_a_list_stay_one_graph(grad: bool) -> None:
    parameters = [nn.Parameter(torch.randn(3 + n % 5)) for n in range(50)]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer = torch.optim.Adam(parameters, foreach=True)
    compiled = compile_api.compile(lambda: optimizer.step())
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            compiled()
    assert "equal layers" not in str(compile_api.report(compiled))
