"""What operators refuse because one operand has another size, compiled programs refuse with the same kind of error, and
never read or write beyond an end instead.  Calls are torch's own samples with one dimension of one operand changed, one
more or one less.

ERRORS=all tries every operator.
"""

import itertools
import os
import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import compile_api

ALL = os.environ.get("ERRORS") == "all"
SAMPLES = 4
# Eager's own kernels end the process, or read beyond an end.
UNCHECKED = {
    "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "lu_unpack", "native_batch_norm",
    "_native_batch_norm_legit", "_batch_norm_with_update", "native_layer_norm", "nn.functional.batch_norm",
    "segment_reduce", "_segment_reduce",
}  # fmt: skip
UNTOLD = ("jiterator", "empty", "new_empty")  # they need another device, or give what was in memory
OPERATORS = sorted(
    {
        op.name
        for op in op_db
        if torch.float32 in op.dtypes and op.name not in UNCHECKED and not op.name.startswith(UNTOLD)
    }
)
CHOSEN = OPERATORS if ALL else random.Random(0).sample(OPERATORS, 30)


def resized(tensor, dim, size):
    sizes = [*tensor.shape[:dim], size, *tensor.shape[dim + 1 :]]
    if tensor.dtype.is_floating_point:
        return torch.rand(sizes, dtype=tensor.dtype) + 0.5
    return torch.full(sizes, tensor.dtype == torch.bool, dtype=tensor.dtype)


def of_other_sizes(op):
    """The operator's samples, one dimension of one operand longer, shorter, 1, new or gone."""
    samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), 200))
    for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        for place, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor) or leaf.layout is not torch.strided:
                continue
            for dim, size in enumerate(leaf.shape):
                for other in sorted({size - 1, size + 1, 1} - {-1, size}):
                    yield replaced(leaves, place, resized(leaf, dim, other)), structure
            for other in (leaf[None], leaf.flatten(), leaf.flatten()[:1].sum()):
                if other.dim() != leaf.dim():
                    yield replaced(leaves, place, other.to(leaf.dtype)), structure


def replaced(leaves, place, other):
    changed = [*leaves[:place], other, *leaves[place + 1 :]]
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in changed]


def error_of(call, leaves, structure):
    copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(copies, structure)
    torch.manual_seed(0)
    try:
        call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever eager raises
        return type(error)
    return None


# Torch 2.11 has no room for what is equal by being NaN where the first operand is the smaller; newer ones compute it.
SMALLER_FIRST = pytree.tree_flatten(((torch.zeros(1, 5), torch.zeros(5, 5)), {"equal_nan": True}))
COMPUTED_SINCE = {"isclose"} if error_of(torch.isclose, *SMALLER_FIRST) else set()


@pytest.mark.without_graphs("capture sees of most that it is refused, ahead of a graph", cases="some")
@pytest.mark.filterwarnings("ignore", "error:compiling a graph failed")
@pytest.mark.parametrize("name", CHOSEN)
def test_what_eager_refuses_is_refused(name):
    for op in (op for op in op_db if op.name == name):
        for number, (leaves, structure) in enumerate(of_other_sizes(op)):
            expected = error_of(op, leaves, structure)
            if expected is None or name in COMPUTED_SINCE:
                continue
            if number % 50 == 0:
                compile_api.reset()
            compiled = compile_api.compile(lambda *args, op=op, **kwargs: op(*args, **kwargs))
            sizes = [tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            assert error_of(compiled, leaves, structure) is expected, sizes
