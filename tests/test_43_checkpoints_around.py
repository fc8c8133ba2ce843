"""A checkpoint around a compiled function, which backward runs again: what was saved the first time is found the second
time, though another version of the function fits by then; and what it does besides is done again."""

import pytest
import torch
from torch.nn import functional as nnf
from torch.utils.checkpoint import checkpoint

import compile_api


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(()))
        self.calls, self.rows, self.rate = 0, 0, 1.0

    def forward(self, x, k):
        self.rows += x.shape[0]
        self.seen += 1
        return self.norm(self.lin(x).sin()) * k


class Counts(Block):
    def forward(self, x, k):
        self.calls += 1
        self.rate *= 0.9
        self.rows += x.shape[0]
        return self.lin(x).sin() * k


class Drops(Block):
    def forward(self, x, k):
        return nnf.dropout(self.lin(x).sin(), k / 4)


class Powers(Block):
    def forward(self, x, k):
        return self.lin(x) ** k


class Breaks(Block):
    def forward(self, x, k):
        self.calls += 1
        y = self.norm(self.lin(x))
        torch._dynamo.graph_break()
        return y.cos() * self.lin(y).exp() * k


def trained(kind, compiled, sizes):
    torch.manual_seed(0)
    module = kind().double()
    run = compiled(module)
    xs = [torch.randn(rows, 4, dtype=torch.float64, requires_grad=True) for rows in sizes]
    losses = [checkpoint(run, x, k, use_reentrant=False).sum() for k, x in enumerate(xs, 1)]
    sum(losses).backward()
    for x in xs:  # one backward for each besides
        checkpoint(run, x, 2, use_reentrant=False).square().sum().backward()
    kept = [*(p.grad for p in module.parameters()), *module.buffers()]
    return [x.grad for x in xs], kept, (module.calls, module.rows, module.rate)


@pytest.mark.parametrize("sizes", [(3, 3, 3), (4, 3, 5, 4)], ids=str)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("kind", [Block, Counts, Drops, Powers, Breaks])
def test_gradients_buffers_and_counters_are_eagers(kind, backend, sizes):
    expected = trained(kind, lambda module: module, sizes)
    found = trained(kind, lambda module: compile_api.compile(module, backend=backend), sizes)
    torch.testing.assert_close(found, expected)
