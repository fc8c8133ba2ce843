"""Prints the figures of the README: tracing time, wrapper time and saved bytes.

Times are CPU time, so that other work on the machine disturbs them less.
"""

import time
import timeit
from collections.abc import Callable

import torch
from torch import nn

import aotgrad


class Layer(nn.Module):
    """One encoder layer of BERT's size."""

    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout, self.heads = nn.Dropout(0.1), heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = self.dropout(torch.softmax(q @ k.transpose(-1, -2) / 8, -1))
        x = self.norms[0](x + self.dropout(self.out((weights @ v).transpose(1, 2).reshape(x.shape))))
        return self.norms[1](x + self.dropout(self.down(nn.functional.gelu(self.up(x)))))


class Encoder(nn.Module):
    def __init__(self, layers: int = 12) -> None:
        super().__init__()
        self.table, self.layers = nn.Embedding(1000, 768), nn.Sequential(*(Layer() for _ in range(layers)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.table(tokens)).square().mean()


def best(fn: Callable[[], object], number: int = 5000) -> float:
    """Microseconds of one call."""
    fn()
    return min(timeit.repeat(fn, timer=time.process_time, number=number, repeat=9)) / number * 1e6


def wrappers() -> None:
    inner = []

    def compiler(gm: torch.fx.GraphModule, example_inputs: list) -> aotgrad.eager.Boxed:
        inner.append(aotgrad.run_eagerly(gm, example_inputs))
        return inner[-1]

    gm = torch.fx.symbolic_trace(lambda x, w: (x * w).relu())
    x, w = torch.randn(8), torch.randn(8, requires_grad=True)
    training = aotgrad.compile(gm, [x, w], forward=compiler)
    with torch.no_grad():
        inference = aotgrad.compile(gm, [x, w], forward=compiler)
        added = best(lambda: inference(x, w)) - best(lambda: inner[1]([x, w]))
        print(f"inference: {added:.1f} us over the inner function")
        alone = best(lambda: inner[0]([x, w]))
    print(f"training: {best(lambda: training(x, w)) - alone:.1f} us over the inner forward")
    tangent = torch.ones(8)
    torch.autograd.grad(training(x, w)[0], w, tangent)
    with torch.no_grad():
        saved = inner[0]([x, w])[1:]
        alone += best(lambda: inner[2]([*saved, tangent]))
    view = w.view(8)
    engine = best(lambda: torch.autograd.grad(view, w, tangent, retain_graph=True))
    both = best(lambda: torch.autograd.grad(training(x, w)[0], w, tangent))
    print(f"forward and backward: {both - alone - engine:.1f} us over the inner functions and autograd's engine")


def tracing() -> None:
    model, tokens = Encoder(), torch.randint(0, 1000, (2, 64))
    aotgrad.function(lambda x: x.sin(), forward=aotgrad.run_eagerly)(torch.ones(1, requires_grad=True)).backward()
    for name in ("default", "min_cut"):
        pairs = []

        def partition(joint: object, name: str = name, pairs: list = pairs) -> object:
            pairs.append((getattr(aotgrad, f"{name}_partition")(joint), len(joint.graph.nodes)))
            return pairs[0][0]

        compiled = aotgrad.module(model, forward=aotgrad.run_eagerly, partition=partition)
        start = time.process_time()
        compiled(tokens)
        pair, nodes = pairs[0]
        seconds, saved = time.process_time() - start, pair.saved_bytes / 2**20
        print(f"{name}: first call {seconds:.2f} s, {nodes} nodes, {saved:.0f} MiB saved")


if __name__ == "__main__":
    wrappers()
    tracing()
