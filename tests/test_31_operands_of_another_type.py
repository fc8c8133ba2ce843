"""What torch's kernels do not implement for a dtype, compiled programs refuse with the same kind of error: no kernel of
ours, and no decomposition, computes it instead.  Calls are torch's samples, their float32 operands of another dtype.

ERRORS=all tries every operator.
"""

import itertools
import os
import random
import re

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import capture
import compile_api

ALL = os.environ.get("ERRORS") == "all"
SAMPLES = 4
DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
)  # fmt: skip
LACKING = re.compile("not implemented for|not support", re.IGNORECASE)
OPERATORS = sorted({op.name for op in op_db if torch.float32 in op.dtypes and not op.name.startswith("jiterator")})
ONCE_COMPUTED = (
    "logaddexp2", "nn.functional.avg_pool3d", "nn.functional.glu", "nn.functional.grid_sample",
    "nn.functional.max_pool1d", "nn.functional.multilabel_margin_loss", "nn.functional.pad", "nn.functional.unfold",
)  # fmt: skip
CHOSEN = OPERATORS if ALL else sorted({*random.Random(0).sample(OPERATORS, 30), *ONCE_COMPUTED})


def of_other_types(op):
    """The operator's samples, everything of single precision in another dtype."""
    samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), 100))
    for sample in samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]:
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if sum(tensor.numel() for tensor in tensors) > 100_000 or all(t.dtype != torch.float32 for t in tensors):
            continue
        for dtype in DTYPES:
            yield dtype, [changed(leaf, dtype) for leaf in leaves], structure


def beside_other_types(op):
    """The samples that eager takes, one tensor of single precision in another floating type, or all others in it."""
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 0, 40, 20):
        leaves, structure = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        leaves = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float32]
        few = len(places) > 1 and sum(leaves[i].numel() for i in places) < 100_000
        if not few or error_of(op, leaves, structure) is not None:
            continue
        for place, dtype in itertools.product(places[:4], (torch.bfloat16, torch.float64)):
            yield [changed(leaf, dtype) if i == place else leaf for i, leaf in enumerate(leaves)], structure
            if dtype == torch.bfloat16:
                yield [changed(leaf, dtype) if i != place else leaf for i, leaf in enumerate(leaves)], structure


def changed(leaf, dtype):
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().to(dtype) if leaf.dtype == torch.float32 else leaf.detach()


def error_of(call, leaves, structure):
    copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    args, kwargs = pytree.tree_unflatten(copies, structure)
    torch.manual_seed(0)
    try:
        call(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - whatever eager raises
        return error
    return None


@pytest.mark.without_graphs("capture sees of most that it is refused, ahead of a graph", cases="some")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHOSEN)
def test_what_eager_does_not_implement_is_refused(name):
    for op in (op for op in op_db if op.name == name):
        for number, (dtype, leaves, structure) in enumerate(of_other_types(op)):
            expected = error_of(op, leaves, structure)
            if expected is None or not LACKING.search(str(expected)):
                continue
            if number % 50 == 0:
                compile_api.reset()
            call = lambda *args, op=op, **kwargs: op(*args, **kwargs)
            found = error_of(compile_api.compile(call, fullgraph=True), leaves, structure)
            if isinstance(found, capture.Unsupported):  # torch's tests wrap some that draw in what ends a graph
                found = error_of(compile_api.compile(call), leaves, structure)
            assert type(found) is type(expected), (dtype, leaves)


TOGETHER = OPERATORS if ALL else ["native_layer_norm", "nn.functional.batch_norm", "nn.functional.grid_sample", "lerp"]


@pytest.mark.without_graphs("capture sees of most that it is refused, ahead of a graph", cases="some")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TOGETHER)
def test_types_that_eager_refuses_beside_one_another_are_refused(name):
    for op in (op for op in op_db if op.name == name):
        for leaves, structure in beside_other_types(op):
            expected = error_of(op, leaves, structure)
            if expected is not None:
                compiled = compile_api.compile(lambda *args, op=op, **kwargs: op(*args, **kwargs), fullgraph=True)
                assert type(error_of(compiled, leaves, structure)) is type(expected), leaves


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("weights", [torch.float32, torch.bfloat16, None])
def test_statistics_are_as_exact_as_the_weights(weights, backend):
    def program(x, weight):
        results = [torch.native_layer_norm(x, (3,), weight, weight, 1e-5)]
        results += [torch.native_group_norm(x, weight, weight, 4, 3, 1, 1, 1e-5)]
        results += [torch.native_batch_norm(x, weight, weight, None, None, True, 0.1, 1e-5)]
        return [each for result in results for each in result]

    x, weight = torch.randn(4, 3, dtype=torch.bfloat16), None if weights is None else torch.ones(3, dtype=weights)
    found = compile_api.compile(program, backend=backend, fullgraph=True)(x, weight)
    assert [each.dtype for each in found] == [each.dtype for each in program(x, weight)]


def test_what_came_before_is_done():
    def program(x, y):
        y.add_(1)
        return torch.nn.functional.glu(x)

    y = torch.zeros(2)
    with pytest.raises(NotImplementedError, match="glu"):
        compile_api.compile(program, fullgraph=True)(torch.ones(4, dtype=torch.int64), y)
    assert y.tolist() == [1, 1]
