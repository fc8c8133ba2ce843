"""Quantised, sparse, nested, complex, meta and oneDNN tensors as arguments, within and as results of functions:
eager's results and errors, called three times, in every backend.

STRANGE_WHOLE=1 tries every function on every kind, STRANGE_SEED draws others; the number tried is printed.
"""

import itertools
import os
import random
import re

import pytest
import torch

import compile_api


def quantised():
    return torch.quantize_per_tensor(torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]]), 0.1, 10, torch.quint8)


def by_channel():
    scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
    return torch.quantize_per_channel(torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5]]), scales, zeros, 0, torch.qint8)


class Plain(torch.Tensor):
    pass


def unaligned():
    tensor = torch.frombuffer(bytearray(25), dtype=torch.float32, offset=1, count=6).view(2, 3)
    return tensor.copy_(DENSE)


def made_in_inference_mode():
    with torch.inference_mode():
        return DENSE.clone()


DENSE = torch.tensor([[0.5, 0.0, 2.0], [0.0, -1.0, 0.0]])
KINDS = {
    "plain": DENSE.clone,
    "quantised": quantised,
    "by channel": by_channel,
    "coo": lambda: DENSE.to_sparse(),
    "uncoalesced": lambda: torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 3)),
    "csr": lambda: DENSE.to_sparse_csr(),
    "csc": lambda: DENSE.to_sparse_csc(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    "complex": lambda: torch.complex(DENSE, DENSE - 1),
    "conjugate": lambda: torch.complex(DENSE, DENSE - 1).conj(),
    "negated": lambda: torch.complex(DENSE, DENSE - 1).conj().imag,
    "meta": lambda: torch.empty(2, 3, device="meta"),
    "onednn": lambda: DENSE.to_mkldnn(),
    "float8": lambda: DENSE.to(torch.float8_e4m3fn),
    "uint16": lambda: DENSE.abs().to(torch.uint16),
    "empty": lambda: torch.empty(0, 3),
    "number": lambda: torch.tensor(2.5),
    "zeros without memory": lambda: torch._efficientzerotensor((2, 3)),
    "negated integers": lambda: torch.arange(6).view(2, 3)._neg_view(),
    "negated slice": lambda: torch.complex(DENSE, DENSE - 1).conj().imag[:, ::2],
    "unaligned": unaligned,
    "inference": made_in_inference_mode,
    "expanded": lambda: torch.ones(3).expand(2, 3),
    "overlapping": lambda: torch.arange(4.0).as_strided((2, 3), (1, 1)),
    "named": lambda: torch.ones(2, 3, names=("a", "b")),
    "complex32": lambda: torch.complex(DENSE, DENSE).to(torch.complex32),
    "complex128": lambda: torch.complex(DENSE, DENSE).to(torch.complex128).conj(),
    "uint64": lambda: DENSE.abs().to(torch.uint64),
    "float8 of another kind": lambda: DENSE.to(torch.float8_e5m2),
    "meta complex": lambda: torch.empty(2, 3, dtype=torch.complex64, device="meta"),
    "block sparse": lambda: torch.ones(2, 4).to_sparse_bsr((2, 2)),
    "subclass": lambda: DENSE.clone().as_subclass(Plain),
}

LEFT_TO_CPYTHON = {
    "quantised",
    "by channel",
    "coo",
    "uncoalesced",
    "csr",
    "csc",
    "nested",
    "jagged",
    "negated",
    "onednn",
    "zeros without memory",
    "negated integers",
    "negated slice",
    "block sparse",
    "subclass",
}

FUNCTIONS = """
t
t + t
t * 2
2 * t
-t
t + 1
t - t.clone()
t.clone()
t.detach()
t.relu() if not t.is_complex() else t.abs()
torch.abs(t)
torch.round(t)
t.sum()
t.sum(0)
t.mean()
t.max() if not t.is_complex() else t.abs().max()
t.dequantize()
t.dequantize() + 1
t.int_repr()
t.q_scale() if t.is_quantized else t.shape
t.to_dense()
t.to_dense() * 2
t.to_dense() @ torch.ones(3)
t @ torch.ones(3)
t @ torch.ones(3, 2)
torch.mm(t, torch.ones(3, 2))
t.coalesce()
t.coalesce().values() * 2
t.coalesce().indices()
t.values()
t.crow_indices()
t.to_sparse()
t.to_sparse_csr()
t.float()
t.to(torch.float64)
t.half()
t.t()
t.transpose(0, 1)
t.reshape(-1)
t.view(3, 2)
t[0]
t[:, 1]
t.unbind()
t.is_sparse, t.is_quantized, t.layout, t.dtype, t.device.type
t.shape, t.dim(), t.numel()
t.requires_grad
t.is_contiguous()
t.stride()
t.size(0) + 1
len(t)
t._nnz()
t.is_conj(), t.is_neg()
t.conj()
t.real
t.imag
torch.view_as_real(t.resolve_conj())
torch.zeros_like(t)
torch.ones_like(t) + t
torch.cat([t, t])
torch.stack([t, t])
torch.where(t.to_dense() > 0, 1.0, 0.0)
torch.equal(t, t)
t == t
t.add_(t)
t.mul_(2)
t.zero_()
t.copy_(t.clone())
t.nbytes
isinstance(t, torch.Tensor), type(t)
torch.is_tensor(t), torch.is_complex(t), torch.is_floating_point(t)
t.to_padded_tensor(0.0)
t.offsets()
torch.softmax(t, -1)
torch.sparse.sum(t)
torch.nn.functional.linear(t, torch.ones(2, 3))
t.to('meta')
t.cpu()
[t, t + t][1]
{'a': t}['a'].clone()
torch.quantize_per_tensor(t, 0.1, 0, torch.qint8)
torch.quantize_per_tensor(t, 0.1, 0, torch.qint8).dequantize()
torch.quantize_per_tensor(t, 0.1, 0, torch.qint8).dequantize().dtype
t.to_sparse().to_dense() + 1
t.to_sparse() * 2
t.to_sparse().coalesce().values().sum()
t.to_mkldnn().to_dense()
torch.complex(t, t).abs()
torch.complex(t, t).conj().imag + 1
torch.nested.nested_tensor([t.reshape(-1), t.reshape(-1)[:1]]).to_padded_tensor(0.0)
torch.empty_like(t, device='meta').shape
torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 3)).to_dense() + t.to_dense()
""".strip().splitlines()
REFUSALS = (RuntimeError, TypeError, NotImplementedError, IndexError, ValueError, AttributeError, AssertionError)


def function_of(text):
    namespace = {"torch": torch}
    exec(compile(f"def function(t):\n    return {text}", "<program>", "exec"), namespace)
    return namespace["function"]


def described(value):
    """A value as plain data: what kind of tensor it is, and what it holds."""
    if isinstance(value, (list, tuple)):
        return [described(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    kind = (type(value).__name__, value.dtype, value.layout, value.device.type, value.is_quantized, value.is_conj())
    if value.device.type == "meta":
        return *kind, value.shape, value.stride()
    if value._is_zerotensor():
        return *kind, value.shape, value.stride(), "zeros"
    if value.is_nested:
        return *kind, [part.tolist() for part in value.unbind()]
    if value.is_quantized:
        return *kind, value.int_repr().tolist(), value.qscheme(), value.dequantize().tolist()
    if value.layout is not torch.strided:
        coalesced = value.is_coalesced() if value.layout is torch.sparse_coo else None
        return *kind, coalesced, value.to_dense().tolist()
    return *kind, value.stride(), repr(value.tolist())


def outcomes(function, make):
    seen = []
    for _ in range(3):
        tensor = make()
        try:
            seen.append((described(function(tensor)), described(tensor)))
        except REFUSALS as error:
            seen.append(type(error))
    return seen


def difference(kind, text, backend):
    compile_api.reset()
    function = function_of(text)
    try:
        expected = outcomes(function, KINDS[kind])
    except REFUSALS:
        return None  # it cannot be described
    if all(isinstance(each, type) for each in expected):
        return None  # what eager's kernels lack, ours need not; errors are tested elsewhere
    found = outcomes(compile_api.compile(function, backend=backend), KINDS[kind])
    # Ragged sizes are numbered as they come.
    same = re.sub(r"\bj\d+", "j", repr(found)) == re.sub(r"\bj\d+", "j", repr(expected))
    return None if same else f"{text} of {kind}\n    {found}\n    {expected}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_strange_tensors_are_eagers(backend, capsys):
    cases, seed = list(itertools.product(KINDS, FUNCTIONS)), int(os.environ.get("STRANGE_SEED", "25"))
    if "STRANGE_WHOLE" not in os.environ:
        cases = random.Random(seed).sample(cases, 120)
    wrong = [why for case in cases if (why := difference(*case, backend))]
    with capsys.disabled():
        print(f" {len(cases)} functions of strange tensors, seed {seed}, {len(wrong)} wrong", end="")
    assert not wrong, "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_which_kinds_graphs_hold():
    """The others are CPython's, so that what is compared with eager above is eager."""
    left = set()
    for kind in KINDS.keys() - {"named"}:  # which torch is giving up
        compile_api.reset()
        compiled = compile_api.compile(function_of("t.clone()"), backend="eager")
        compiled(KINDS[kind]())
        if not compile_api.report(compiled).captured:
            left.add(kind)
    assert left == LEFT_TO_CPYTHON


@pytest.mark.without_graphs("no graph holds a quantised tensor: CPython makes it")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_quantised_tensor_made_within_is_dequantised(backend):
    text = "torch.quantize_per_tensor(t, 0.1, 0, torch.qint8).dequantize()"
    assert difference("plain", text, backend) is None


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_epoch_over_a_data_loader_is_eagers(backend):
    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return {"a": torch.ones(2) * i, "b": i, "c": "x", "d": float(i), "e": (i, [i, 2.0])}

    def epoch(loader):
        total = 0
        for batch in loader:
            total = total + batch["a"].sum() + batch["b"].sum() * len(batch["c"]) + batch["d"].sum()
        return total

    compiled = compile_api.compile(epoch, backend=backend)
    for _ in range(2):
        results = []
        for function in (epoch, compiled):
            torch.manual_seed(0)
            results.append(function(torch.utils.data.DataLoader(Samples(), 4, shuffle=True, drop_last=True)))
        assert torch.equal(*results)
    assert len(compile_api.report(compiled).captured) >= 3
