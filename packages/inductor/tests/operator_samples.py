"""Torch's own operator samples: traced, compiled and compared with eager."""

import itertools
import zlib
from dataclasses import dataclass

import pytest
import torch
from compiled import copied
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._comparison import default_tolerances
from torch.utils import _pytree as pytree

import inductor

samples_of_torch = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="they need expecttest", exc_type=ImportError
)
toleranceOverride = pytest.importorskip("torch.testing._internal.common_device_type").toleranceOverride
# The samples of random operators seed the generator within the program, which is no operator's business.
samples_of_torch.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
HALF = (torch.bfloat16, torch.float16)
OPTIONS = inductor.Options(fallback=False, cpp_flags=("-O1",))
TOGETHER = 16
"""So many samples of an operator share a graph: the compiler is started less often, and fusion gets to see them."""

_UNTRACEABLE = {
    **dict.fromkeys(
        (
            "allclose",
            "corrcoef",
            "cov",
            "equal",
            "istft",
            "nn.functional.gaussian_nll_loss",
            "tensor_split",
            "nn.functional.one_hot",
        ),
        "the program branches on the values of a tensor",
    ),
    **dict.fromkeys(
        ("linalg.lstsq", "linalg.lstsq.grad_oriented", "nn.functional.ctc_loss"),
        "the tracer cannot say how large the result is",
    ),
    **dict.fromkeys(("item", "narrow"), "a number read from a tensor is not part of a compiled graph yet"),
    **dict.fromkeys(("sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"), "sparse tensors are not compiled"),
}
EXCLUDED = {
    **_UNTRACEABLE,
    **dict.fromkeys(
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
        "eager itself returns uninitialised memory",
    ),
}
"""Operators that are not compared, and why."""


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


OPERATORS = [
    op for op in samples_of_torch.op_db
    if name_of(op) not in EXCLUDED and op.dtypes and not name_of(op).startswith("jiterator")
]  # fmt: skip


@dataclass(frozen=True)
class Sample:
    """One call of an operator: ``leaves`` are its arguments, those at ``places`` are tensors."""

    op: object
    leaves: list
    structure: object
    places: list

    @property
    def tensors(self):
        return [self.leaves[k].detach() for k in self.places]

    def call(self, tensors, wide=False):
        """The operator on other tensors; ``wide`` asks for float64 where half precision was asked for."""
        given = [
            torch.float64 if wide and isinstance(leaf, torch.dtype) and leaf in HALF else leaf for leaf in self.leaves
        ]
        for place, tensor in zip(self.places, tensors, strict=True):
            given[place] = tensor
        args, kwargs = pytree.tree_unflatten(given, self.structure)
        return self.op.op(*args, **kwargs)


def samples(op, dtype):
    """Every sample of the operator."""
    for sample in op.sample_inputs("cpu", dtype):
        leaves, structure = pytree.tree_flatten(([sample.input, *sample.args], sample.kwargs))
        yield Sample(op, leaves, structure, [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)])


def some(op, dtype):
    """One sample of the operator, another one for every dtype, the same in every run."""
    found = list(itertools.islice(samples(op, dtype), 40))
    return [found[zlib.crc32(f"{name_of(op)} {dtype}".encode()) % len(found)]] if found else []


def batches(found):
    found = list(found)
    return [found[start : start + TOGETHER] for start in range(0, len(found), TOGETHER)]


def tolerance(op, dtype):
    """(rtol, atol) beyond the defaults: the loosest that torch's own tests of the operator ask for."""
    rtol = atol = 0.0
    for info in op.decorators:
        for decorator in getattr(info, "decorators", ()):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                rtol, atol = max(rtol, decorator.d[dtype].rtol), max(atol, decorator.d[dtype].atol)
    return rtol, atol


def check(op, dtype, batch):
    """Samples compiled as one graph; where one is off, the first of those that are off alone is named."""
    try:
        compare(op, dtype, batch)
    except Exception:
        for number, sample in enumerate(batch):
            try:
                compare(op, dtype, [sample])
            except Exception as error:
                shapes = [f"{tuple(t.shape)} by {t.stride()}" for t in sample.tensors]
                raise AssertionError(f"{name_of(op)} in {dtype}, sample {number} of {shapes}") from error
        raise


def compare(op, dtype, batch):
    inputs = [tensor for sample in batch for tensor in sample.tensors]

    def together(*given, wide=False):
        rest = iter(given)
        return [sample.call(list(itertools.islice(rest, len(sample.places))), wide) for sample in batch]

    with torch.no_grad():
        expected = run(together, inputs)
        gm = make_fx(together, tracing_mode="fake")(*[copied(tensor) for tensor in inputs])
        results = run(inductor.compile(gm, inputs, options=OPTIONS), inputs)
    leaves = pytree.tree_leaves(expected)
    assert len(results) == len(leaves)
    for number, (result, value) in enumerate(zip(results, leaves, strict=True)):
        try:
            agree(result, value, *tolerance(op, dtype))
        except AssertionError:
            if dtype not in HALF or not is_better(
                result, value, exact(together, inputs)[number], *tolerance(op, dtype)
            ):
                raise


def run(function, inputs):
    torch.manual_seed(0)
    return function(*[copied(tensor) for tensor in inputs])


def agree(result, value, rtol, atol):
    """Equal to eager's dtype, size and strides, and to its values within the tolerance of the result's dtype."""
    if not isinstance(value, torch.Tensor):
        assert result == value
        return
    assert (result.dtype, result.shape) == (value.dtype, value.shape)
    if value.numel() and value.layout == torch.strided:
        assert significant(result) == significant(value), f"strides {result.stride()}, not {value.stride()}"
    usual_rtol, usual_atol = default_tolerances(value.dtype)
    rtol, atol = max(rtol, usual_rtol), max(atol, usual_atol)
    torch.testing.assert_close(result, value, rtol=rtol, atol=atol, equal_nan=True)


def exact(function, inputs):
    """The results in float64: eager in half precision rounds where our kernels need not."""
    wide = [tensor.double() if tensor.dtype in HALF else tensor for tensor in inputs]
    torch.manual_seed(0)
    return pytree.tree_leaves(function(*wide, wide=True))


def is_better(result, value, reference, rtol, atol):
    """Whether every element is right within half precision's tolerance, or as near to what is right as eager's are."""
    if not isinstance(value, torch.Tensor) or value.dtype not in HALF:
        return False
    ours, theirs = (result.double() - reference).abs(), (value.double() - reference).abs()
    usual_rtol, usual_atol = default_tolerances(value.dtype)
    allowed = max(atol, usual_atol) + max(rtol, usual_rtol) * reference.abs()
    usual = theirs[theirs.isfinite()].max() if theirs.isfinite().any() else 0.0
    return bool(((ours <= allowed) | (ours <= usual) | (result == value)).all())


def significant(tensor):
    """The strides that say where something lies."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
