"""Torch's own operator samples: traced, compiled and compared with eager."""

import importlib.util
import itertools
import os
import random
import sys
import types
import unittest
import warnings
import zlib
from dataclasses import dataclass

import torch
from compiled import copied
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._comparison import default_tolerances
from torch.utils import _pytree as pytree

import inductor

# Torch's module of samples asks for it, for tests of its own.
if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what torch's module imports for tests of its own, numba for one
    samples_of_torch = importlib.import_module("torch.testing._internal.common_methods_invocations")
toleranceOverride = importlib.import_module("torch.testing._internal.common_device_type").toleranceOverride
# The samples of random operators seed the generator within the program, which is no operator's business.
samples_of_torch.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
# For each sample these look for torch's own test that asks, by reading the sources of all callers: there is none.
for part in ("common_utils", "opinfo.core"):
    importlib.import_module(f"torch.testing._internal.{part}").extract_test_fn = lambda: None
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
HALF = (torch.bfloat16, torch.float16)
OPTIONS = inductor.Options(fallback=False, cpp_flags=("-O1",))
TOGETHER = 16
"""So many samples of an operator share a graph: the compiler is started less often, and fusion gets to see them."""


def reads_its_quantiles():
    """Whether torch.quantile looks at which quantiles it is to find, as torch 2.11 does."""
    with FakeTensorMode():
        try:
            return torch.quantile(torch.rand(3), torch.rand(2)) is None
        except DataDependentOutputException:
            return True


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
        ("quantile", "nanquantile") if reads_its_quantiles() else (), "the program branches on the values of a tensor"
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
EXCLUDED_ON_GPUS = dict.fromkeys(
    ("native_batch_norm", "_native_batch_norm_legit"),
    "in inference torch's fakes say that its statistics are empty, its kernels do not",
)


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
    dtype: torch.dtype
    leaves: list
    structure: object
    places: list

    def __str__(self):
        shapes = ", ".join(f"{tuple(t.shape)} by {t.stride()}" for t in self.tensors)
        return f"{name_of(self.op)} in {self.dtype} of [{shapes}]"

    @property
    def tensors(self):
        return [self.leaves[k].detach() for k in self.places]

    def call(self, tensors, wide=()):
        """The operator on other tensors; float64 is asked for where a dtype of ``wide`` was asked for."""
        given = [torch.float64 if isinstance(leaf, torch.dtype) and leaf in wide else leaf for leaf in self.leaves]
        for place, tensor in zip(self.places, tensors, strict=True):
            given[place] = tensor
        args, kwargs = pytree.tree_unflatten(given, self.structure)
        return self.op.op(*args, **kwargs)


def samples(op, dtype, device="cpu"):
    """Every sample of the operator that eager runs: some are refused by its kernels for one device or the other.

    If it runs none of them, that is said: a test of no sample would pass for ever."""
    ran, complaint, met = False, None, []
    for given in op.sample_inputs(device, dtype):
        leaves, structure = pytree.tree_flatten(([given.input, *given.args], given.kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        for k in places:  # some operators have samples that are given the same statistics to write to
            if any(_share_memory(leaves[k], other) for other in met):
                leaves[k] = copied(leaves[k].detach())
        met += [leaves[k] for k in places]
        sample = Sample(op, dtype, leaves, structure, places)
        if refusal := refusal_of(sample):
            complaint = refusal
            continue
        ran = True
        yield sample
    assert ran or complaint is None, f"eager runs no sample of {name_of(op)} in {dtype}: {complaint}"


def _share_memory(one, other):
    strided = one.layout is other.layout is torch.strided
    return strided and one.numel() > 0 and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def refusal_of(sample):
    """What eager raises on the sample, if it does."""
    try:
        with torch.no_grad():
            sample.call([copied(tensor) for tensor in sample.tensors])
    except Exception as error:  # noqa: BLE001 whatever eager raises, there is no result to compare with
        return error
    return None


def some(op, dtype):
    """One sample of the operator, another one for every dtype, the same in every run."""
    found = list(itertools.islice(samples(op, dtype), 40))
    return [found[zlib.crc32(f"{name_of(op)} {dtype}".encode()) % len(found)]] if found else []


def batches(found, size=TOGETHER):
    found = list(found)
    return [found[start : start + size] for start in range(0, len(found), size)]


# -- drawn by lot -----------------------------------------------------------------------------------------------------


def _seed():
    """INDUCTOR_SEED; without it another one for every run where a GPU is, the same in all processes of the run."""
    if given := os.environ.get("INDUCTOR_SEED"):
        return int(given)
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "").encode() or os.urandom(4)
    return zlib.crc32(run) % 1_000_000 if torch.cuda.is_available() else 0


SEED = _seed()
FRACTION = float(os.environ.get("INDUCTOR_FRACTION", "0.05"))


def drawn(device, fraction=FRACTION):
    """That part of all operators and dtypes, one sample of each; SEED decides which."""
    chance = random.Random(SEED)
    excluded = EXCLUDED_ON_GPUS if device == "cuda" else {}
    operators = [op for op in OPERATORS if name_of(op) not in excluded]
    cases = [(op, dtype) for op in operators for dtype in DTYPES if op.supports_dtype(dtype, device)]
    return [(*case, chance.random()) for case in chance.sample(cases, round(len(cases) * fraction))]


def drawn_sample(op, dtype, chance, device):
    """The sample of an operator that ``chance``, below 1, stands for."""
    found = list(itertools.islice(samples(op, dtype, device), 40))
    return [found[int(chance * len(found))]] if found else []


# -- compared with eager ----------------------------------------------------------------------------------------------


def tolerance(sample):
    """(rtol, atol) beyond the defaults: the loosest that torch's own tests of the operator ask for."""
    rtol = atol = 0.0
    for info in sample.op.decorators:
        for decorator in getattr(info, "decorators", ()):
            if isinstance(decorator, toleranceOverride) and sample.dtype in decorator.d:
                asked = decorator.d[sample.dtype]
                rtol, atol = max(rtol, asked.rtol), max(atol, asked.atol)
    return rtol, atol


def built(function, inputs):
    gm = make_fx(function, tracing_mode="fake")(*[copied(tensor) for tensor in inputs])
    return inductor.compile(gm, inputs, options=OPTIONS)


def check(batch, build=built):
    """Samples compiled as one graph; where one is off, the first of those that are off alone is named."""
    try:
        compare(batch, build)
    except Exception:
        for sample in batch:
            try:
                compare([sample], build)
            except Exception as error:
                raise AssertionError(f"{sample}") from error
        raise


def compare(batch, build=built):
    """``build`` makes what is compared with eager from a function and its inputs."""
    inputs = [tensor for sample in batch for tensor in sample.tensors]

    def each(given, wide=()):
        rest = iter(given)
        return [sample.call(list(itertools.islice(rest, len(sample.places))), wide) for sample in batch]

    def together(*given):
        return each(given)

    with torch.no_grad():
        expected = [pytree.tree_leaves(value) for value in run(together, inputs)]
        results = iter(run(build(together, inputs), inputs))
    for number, (sample, values) in enumerate(zip(batch, expected, strict=True)):
        for part, value in enumerate(values):
            result = next(results)
            try:
                agree(result, value, *tolerance(sample))
            except AssertionError:
                if not is_better(result, value, lambda: exact(each, inputs, value.dtype)[number][part], sample):
                    raise
    assert not list(results)


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


def exact(each, inputs, dtype):
    """The results in float64: eager rounds where our kernels need not, and sums in another order."""
    wide = (dtype, *HALF)
    torch.manual_seed(0)
    with torch.no_grad():
        values = each([tensor.double() if tensor.dtype in wide else copied(tensor) for tensor in inputs], wide)
    return [pytree.tree_leaves(value) for value in values]


def is_better(result, value, reference, sample):
    """Whether every element is right within the tolerance, or as near to what is right as eager's are.

    In half precision; on GPUs in single precision too, where eager's own kernels are rough."""
    imprecise = HALF if not isinstance(value, torch.Tensor) or value.device.type == "cpu" else (*HALF, torch.float32)
    if not isinstance(value, torch.Tensor) or value.dtype not in imprecise:
        return False
    right = reference()
    ours, theirs = (result.double() - right).abs(), (value.double() - right).abs()
    (rtol, atol), (usual_rtol, usual_atol) = tolerance(sample), default_tolerances(value.dtype)
    allowed = max(atol, usual_atol) + max(rtol, usual_rtol) * right.abs()
    usual = theirs[theirs.isfinite()].max() if theirs.isfinite().any() else 0.0
    return bool(((ours <= allowed) | (ours <= usual) | (result == value)).all())


def significant(tensor):
    """The strides that say where something lies."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
