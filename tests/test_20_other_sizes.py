"""Torch's own samples of its operators, stretched, and models over inputs of other lengths: one graph more serves all.

A part by default; every operator with ``OTHER_SIZES=all``.  ``python -m corpus.sizes`` and ``python -m corpus.lengths``
tell the same in detail.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # the corpus is a program of this repository, not a package

from corpus import lengths, sizes
from corpus.families import register_all
from corpus.stretched import name_of, of_operator, operators
from corpus.table import CASES
from torch.nn import functional as nnf

import capture
import compile_api

register_all()
ALL = os.environ.get("OTHER_SIZES") == "all"
PART = (
    *("add", "cat", "cumsum", "diff", "einsum", "expand", "gather", "index_put", "kron", "linalg.solve", "linspace"),
    *("masked_fill", "matmul", "nn.functional.conv2d", "nn.functional.cross_entropy", "nn.functional.layer_norm"),
    *("nn.functional.interpolate.bilinear", "nn.functional.pad.reflect", "nn.functional.scaled_dot_product_attention"),
    *(
        "roll",
        "scatter_add",
        "softmax",
        "sort",
        "stack",
        "take_along_dim",
        "topk",
        "tril_indices",
        "unflatten",
        "where",
    ),
)
NUMBERS = "the number is a part of what is computed, and torch takes it for a constant"
PIECES = "how many tensors it makes follows from the size"
FIXED = "torch's fake takes the size for a constant"
MORE_GRAPHS = {
    **dict.fromkeys(("chunk", "unsafe_chunk", "split", "unsafe_split", "unbind", "unbind_copy", "_chunk_cat"), PIECES),
    **dict.fromkeys(("split.list_args", "split_with_sizes", "split_with_sizes_copy", "tensor_split"), PIECES),
    **dict.fromkeys(("hsplit", "vsplit", "dsplit"), PIECES),
    **dict.fromkeys(("normal.in_place", "uniform", "stft", "randint_like", "round.decimals_3", "renorm"), NUMBERS),
    **dict.fromkeys(("nn.functional.adaptive_max_pool1d", "nn.functional.adaptive_max_pool2d"), NUMBERS),
    **dict.fromkeys(
        ("nn.functional.adaptive_max_pool3d", "nn.functional.interpolate.area", "linalg.matrix_norm"), NUMBERS
    ),
    **dict.fromkeys(("resize_", "resize_as_", "max_pool2d_with_indices_backward", "bincount", "histogramdd"), NUMBERS),
    **dict.fromkeys(("nn.functional.bilinear", "nn.functional.embedding_bag", "linalg.multi_dot", "to_sparse"), FIXED),
    **dict.fromkeys(("nn.functional.linear_cross_entropy", "nn.functional.fractional_max_pool3d"), FIXED),
    **dict.fromkeys(("grid_sampler_3d",), FIXED),
}
"""Operators that are more than one graph more over some samples, and why."""


def is_known(name):
    known = ("polygamma", "special.polygamma", "mvlgamma", "fft.", "empty", "new_empty")
    return name in MORE_GRAPHS or name.startswith(known)


def has_graph(log):
    return any(isinstance(record, capture.GraphRecord) for record in log.records())


@pytest.mark.filterwarnings("ignore")  # torch's, of what its samples do
@pytest.mark.parametrize("name", [name_of(op) for op in operators() if ALL or name_of(op) in PART])
def test_operators(name):
    (op,) = (op for op in operators() if name_of(op) == name)
    for sample in of_operator(op, limit=3 if ALL else 1):
        log = capture.Log()
        seen = sizes.run(sample, capture.optimize("eager", log=log), log, gradients=not ALL, exact=False)
        assert seen.is_right, str(seen)
        assert seen.serves_all or is_known(name), str(seen)
        assert has_graph(log) or is_known(name)


MODELS = [name for name in ("written/perceiver", "written/temporal_convolutions", "hf/Llama") if name in CASES]


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, mode):
    if name.startswith("hf/") and importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    for varied in lengths.varied(CASES[name]):
        log = capture.Log()
        outcome = lengths.run(varied, mode, capture.optimize("eager", log=log), log, exact=True)
        assert outcome.is_right, str(outcome)
        assert outcome.serves_all, str(outcome)
        assert has_graph(log)


@pytest.mark.parametrize("function", [
    lambda x: torch.linspace(0, 1, x.shape[2]) * x + torch.hann_window(x.shape[2], periodic=False),
    lambda x: nnf.max_pool1d(x, x.shape[2]) + nnf.avg_pool1d(x, x.shape[2]) + nnf.avg_pool2d(x, x.shape[1:]),
    lambda x: torch.kron(x[0], x[1, :2, :2])[:, : x.shape[2]] * torch.tril_indices(x.shape[2], 1)[0],
    lambda x: x.diff().sum() + torch.combinations(x[0, 0]).prod(1).sum() + torch.gradient(x, dim=2)[0].sum(),
    lambda x: nnf.grid_sample(x[None], nnf.affine_grid(torch.eye(2, 3)[None], (1, 2, 3, x.shape[2]), True)),
    lambda x: torch.signal.windows.gaussian(x.shape[2]) * x * torch.take_along_dim(x, x.argsort(-1), -1),
    lambda x: x.masked_fill(x > 0, 1 / x.shape[2]).clamp(-2 / x.shape[2], x.shape[2]),
], ids=range(7))  # fmt: skip
@pytest.mark.filterwarnings("ignore:Default grid_sample and affine_grid")
def test_compiled_functions(function):
    log = capture.Log()
    compiled = capture.optimize(compile_api.backend_function(), log=log)(function)
    for length in (7, 9, 12, 5, 30, 11):
        x = torch.randn(2, 3, length, requires_grad=True)
        expected, actual = function(x), compiled(x)
        torch.testing.assert_close(actual, expected)
        assert actual.stride() == expected.stride()
        gradients = [torch.autograd.grad(result.square().sum(), x)[0] for result in (actual, expected)]
        torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)
    kinds = [type(record) for record in log.records()]
    assert (kinds.count(capture.GraphRecord), kinds.count(capture.BreakRecord)) == (2, 0)
