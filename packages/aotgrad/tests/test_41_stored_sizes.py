"""Compiled graphs whose sizes vary go through JSON text, and compute the same at other sizes, without tracing."""

import json

import pytest
import torch
import torch.nn.functional as F
from torch import fx

import aotgrad
import aotgrad.pipeline


def flattened(x, w):
    return (x @ w).reshape(x.shape[0] * x.shape[1], -1).softmax(0), x.shape[0] + 1


def halves(x, w):
    first, last = x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]
    return F.gelu(first @ w).mean(1), last.amax(1), last


def joined(x, w):
    y = torch.cat([x, x.flip(0)], 1)
    return (y @ w).cumsum(1) / y.shape[1], y.new_zeros(y.shape[1] ** 2)


def padded(x, w):
    y = F.pad(x, (0, 0, 1, x.shape[0] % 3))
    return torch.tanh(y @ w) * x.shape[1], y.sum()


def written_to(x, w):
    y = x * w[0]
    y[:, 0].mul_(3)
    x.data.mul_(2)
    return y, y.transpose(0, 1)


def drops(x, w):
    y = F.dropout(x @ w, 0.5)
    return y.view(-1), y.new_ones(x.shape[1], x.shape[0]).sum() + y.mean()


def seen_by_data(x, w):
    y = x[x[:, 0, 0] > 0]
    return (y @ w).sum(1), y.shape[0]


PROGRAMS = [flattened, halves, joined, padded, written_to, drops, seen_by_data]
SIZES = [(3, 4), (5, 6), (7, 2)]


def given(batch, length):
    torch.manual_seed(batch)
    return [torch.randn(*size, 11, dtype=torch.float64, requires_grad=True) for size in ((batch, length), (11,))]


def restored(program, monkeypatch, grad):
    graphs = []
    with torch.set_grad_enabled(grad):
        compiled = aotgrad.compile(
            fx.symbolic_trace(program), given(*SIZES[0]), forward=aotgrad.run_eagerly, dynamic=True, describable=True,
            partition=aotgrad.min_cut_partition,
        )  # fmt: skip
        data = aotgrad.describe(compiled, lambda graph: graphs.append(graph) or 0)
        assert not isinstance(data, aotgrad.Refusal), data.reason
        monkeypatch.setattr(aotgrad.pipeline, "trace", None)
        text = json.loads(json.dumps(data))
        return aotgrad.restore(text, take_up=lambda number: graphs[number], backward=aotgrad.run_eagerly), data


def tensors(results):
    return [each.detach() if isinstance(each, torch.Tensor) else each for each in results]


@pytest.mark.parametrize("program", PROGRAMS)
def test_other_sizes_without_gradients(program, monkeypatch):
    call, _ = restored(program, monkeypatch, grad=False)
    for sizes in SIZES:
        with torch.no_grad():
            ours, theirs = (each(*given(*sizes)) for each in (call, program))
        torch.testing.assert_close(tensors(ours), tensors(theirs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("wanted", [slice(None), slice(0, 1), slice(1, None)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_other_sizes_go_back(program, wanted, again, monkeypatch):
    call, _ = restored(program, monkeypatch, grad=True)

    def stepped(run, sizes):
        inputs = given(*sizes)
        results = run(*inputs)
        followed = [each for each in results[wanted] if isinstance(each, torch.Tensor) and each.requires_grad]
        if not followed:
            return tensors(results)
        loss = sum(each.exp().sum() for each in followed)
        found = torch.autograd.grad(loss, inputs, allow_unused=True, create_graph=again)
        if again and any(each is not None and each.requires_grad for each in found):
            sums = [each.square().sum() for each in found if each is not None and each.requires_grad]
            found += torch.autograd.grad(sum(sums), inputs, allow_unused=True)
        return tensors([*results, *found, inputs[0]])

    for sizes in SIZES:
        torch.testing.assert_close(stepped(call, sizes), stepped(program, sizes), rtol=1e-4, atol=1e-4)


def shown(data):
    graphs = aotgrad.restore(data, take_up=lambda _: print, backward=aotgrad.run_eagerly).made_of.graphs
    return aotgrad.show(graphs.joint), aotgrad.show(graphs.backward)


@pytest.mark.parametrize("program", PROGRAMS)
def test_graphs_are_what_they_were(program, monkeypatch):
    call, data = restored(program, monkeypatch, grad=True)
    # Symbols get names of their own where they are read, and the same ones each time.
    assert shown(aotgrad.describe(call, lambda _: 0)) == shown(data)
