"""In inference mode, too, what an operator gives is a view where eager's is, and what is written to it is written.

Autograd, which takes operators apart that are made of others, is left out there.
"""

import random

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import compile_api

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the operators, and of functions left to eager
LEFT_OUT = (
    "empty",
    "new_empty",
    "jiterator",
    "linalg",
    "svd",
    "pca",
    "geqrf",
    "lu",
    "qr",
    "ormqr",
    "bernoulli",
    "unsafe",
)
OPERATORS = [op for op in op_db if torch.float32 in op.dtypes and not op.name.startswith(LEFT_OUT)]
VIEWS = {
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "a diagonal": lambda x: torch.einsum("ii->i", x[:, :3]),
    "atleast_3d": torch.atleast_3d,
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij"),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x[:, :1], x)[1],
    "dropout that drops nothing": lambda x: F.dropout(x, 0.5, False),
    "dropout of channels": lambda x: F.dropout1d(x, 0.5, False),
    "another type": lambda x: x.view(torch.int32).view(torch.float32),
    "slice": lambda x: x[:, 1:],
}


def written(operator):
    def program(x, *args, **kwargs):
        result = operator(x, *args, **kwargs)
        tensors = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        for each in tensors[:1]:
            if each.is_floating_point() and not any(step == 0 for step in each.stride()):
                each.add_(1)
        return tensors, x * 2

    return program


def seen(call, x, args, kwargs):
    """What a caller sees of the results and of the argument."""
    x, args, kwargs = tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, (x, list(args), dict(kwargs)))
    torch.manual_seed(0)
    results, after = call(x, *args, **kwargs)
    kinds = [(each.is_inference(), each.requires_grad, each.is_leaf) for each in results]
    memory = [each.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for each in results if each.numel()]
    strides = [each.stride() for each in results if min(each.shape, default=1) > 1]
    return kinds, memory, strides, [*results, after, x]


def difference(operator, backend, x, args=(), kwargs=None):
    """The first thing that differs from eager; None also where eager refuses the operator or the write."""
    program = written(operator)
    with torch.inference_mode():
        try:
            expected = seen(program, x, args, kwargs or {})
        except (RuntimeError, NotImplementedError):
            return None
        compile_api.reset()
        found = seen(compile_api.compile(program, backend=backend), x, args, kwargs or {})
    if found[:3] != expected[:3]:
        return found[:3], expected[:3]
    pairs = zip(found[3], expected[3], strict=True)
    return next((pair for pair in pairs if not torch.allclose(*pair, rtol=1e-3, atol=1e-3, equal_nan=True)), None)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("made", ["inside", "outside", "requires grad"])
@pytest.mark.parametrize("view", VIEWS)
def test_what_is_written_to_a_view_is_written(view, made, backend):
    with torch.inference_mode(made == "inside"):
        x = torch.randn(4, 5, requires_grad=made == "requires grad")
    assert difference(VIEWS[view], backend, x) is None


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_operators_give_views_where_eagers_do(backend):
    for op in random.sample(OPERATORS, 10):
        for sample in list(op.sample_inputs("cpu", torch.float32))[:2]:
            if isinstance(sample.input, torch.Tensor):
                assert difference(op, backend, sample.input, sample.args, sample.kwargs) is None, op.name


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_views_of_views_that_require_grad_have_no_history(backend):
    compiled = compile_api.compile(lambda x: (x[:, 1:], x * 2), backend=backend)
    for size in (3, 5, 6):
        x = torch.randn(size * 4, requires_grad=True).view(size, 4)
        with torch.inference_mode():
            view, _ = compiled(x)
        assert view.requires_grad
        assert view.grad_fn is None
        assert not view.is_inference()
