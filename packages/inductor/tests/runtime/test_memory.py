"""Compiled graphs hold no more memory at a time than eager does."""

import gc
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import inductor

R = torch.randn


class Peak(TorchDispatchMode):
    """The most bytes that results of operators held at a time."""

    def __init__(self):
        super().__init__()
        self.alive, self.held, self.most = set(), 0, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(results):
            if isinstance(leaf, torch.Tensor):
                self.note(leaf)
        return results

    def note(self, tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in self.alive:
            self.alive.add(storage._cdata)
            self.held += storage.nbytes()
            self.most = max(self.most, self.held)
            weakref.finalize(storage, self.freed, storage._cdata, storage.nbytes())

    def freed(self, key, size):
        self.alive.discard(key)
        self.held -= size


def peak_of(function, *inputs):
    gc.collect()
    with torch.no_grad(), Peak() as peak:
        function(*inputs)
    return peak.most


def mlp(x, w, v):
    for _ in range(3):
        x = F.gelu(x @ w + 1) @ v
    return x


def block(x, w, v):
    y = F.layer_norm(x, (64,)) @ w
    q, k, z = y.split(64, -1)
    x = x + (q @ k.mT).tanh() @ z
    return x + F.silu(F.layer_norm(x, (64,)) @ v) @ v.mT


def norms(x, w, b):
    for _ in range(4):
        x = F.batch_norm(F.conv2d(x, w, b, padding=1), None, None, b, b, True).relu()
    return x.mean((2, 3))


def branches(x):
    parts = [(x + k).exp().sort(-1)[0] for k in range(5)]
    return sum(part.sum() for part in parts)


def gradients_of_many_steps(w, x):
    """What backward of a recurrent layer does: a product for each step, and their sum."""
    return sum((x[step].T @ x[step] for step in range(12)), w)


CASES = {
    "gradients of many steps": (gradients_of_many_steps, R(512, 512), R(12, 4, 512)),
    "mlp": (mlp, R(128, 64), R(64, 256), R(256, 64)),
    "attention block": (block, R(4, 128, 64), R(64, 192), R(64, 256)),
    "convolutions and norms": (norms, R(4, 8, 16, 16), R(8, 8, 3, 3), R(8)),
    "branches": (branches, R(64, 64)),
    "log-softmax and loss": (lambda x, t: F.cross_entropy(x * 2, t), R(64, 1000), torch.arange(64)),
}


@pytest.mark.parametrize("name", CASES)
def test_peak_is_at_most_eagers(name):
    function, *inputs = CASES[name]
    compiled = inductor.compile(make_fx(function)(*inputs), inputs, options={"fallback": False})
    compiled(*inputs)
    assert 0 < peak_of(compiled, *inputs) <= peak_of(function, *inputs)


def test_boxed_inputs_are_freed_when_they_were_read():
    function = lambda x, w: ((x @ w).sort()[0] @ w).sort()[0]
    make = lambda: [R(256, 256), R(256, 256)]
    compiled = inductor.compile(make_fx(function)(*make()), make(), options={"fallback": False})

    def peak(call):
        with torch.no_grad(), Peak() as peak:
            given = make()
            call(given)
        return peak.most

    assert peak(compiled.call) < peak(lambda given: compiled(*given))


def test_constants_are_kept_once():
    table = R(100, 100)
    gm = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(100, 100)))
    gm.get_submodule("0").weight = torch.nn.Parameter(table)
    compiled = inductor.compile(gm, [table])
    with torch.no_grad(), Peak() as peak:
        compiled(table)
    assert peak.most <= 2 * table.nbytes  # a product and what the bias is added to; no copy of the weight
