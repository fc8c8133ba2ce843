"""Every operator that torch has samples for: values and gradients as in eager.

By default one sample of each operator in float32; AOTGRAD_ALL_SAMPLES=1 runs all of them in three dtypes.
"""

import importlib
import os
from functools import cache, partial

import pytest
import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

import aotgrad
from aotgrad.errors import FailsOnFakes
from aotgrad.pre_autograd.mismatched_operands import refuse_misfits
from aotgrad.random_operators import may_draw

samples_of_torch = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="they need expecttest", exc_type=ImportError
)
op_db = samples_of_torch.op_db
# For each sample these look for torch's own test that asks, by reading the sources of all callers: there is none.
for part in ("common_utils", "opinfo.core"):
    importlib.import_module(f"torch.testing._internal.{part}").extract_test_fn = lambda: None


def reads_its_quantiles():
    """Whether torch.quantile looks at which quantiles it is to find, as torch 2.11 does."""
    with FakeTensorMode():
        try:
            return torch.quantile(torch.rand(3), torch.rand(2)) is None
        except DataDependentOutputException:
            return True


REFUSED = {
    **dict.fromkeys(
        ["allclose", "corrcoef", "cov", "equal", "nn.functional.gaussian_nll_loss", "tensor_split"],
        "the program branches on the values of a tensor",
    ),
    **dict.fromkeys(
        ["linalg.lstsq", "linalg.lstsq.grad_oriented", "nn.functional.ctc_loss", "nn.functional.one_hot"],
        "the size of a result depends on the values of a tensor",
    ),
    **dict.fromkeys(
        ["quantile", "nanquantile"] if reads_its_quantiles() else [], "the program branches on the values of a tensor"
    ),
    **dict.fromkeys(["sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"], "sparse tensors are not compiled"),
}
EXCLUDED = {
    **dict.fromkeys(
        ["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"],
        "eager itself returns uninitialised memory",
    ),
    "linalg.eig": "the gradient of ones is not defined in eager: eigenvectors have a free phase",
    "as_strided.partial_views": "the sample reads memory outside its tensor, which a clone of it does not have",
    "torch._scaled_mm": "float8 results cannot be compared with a tolerance",
}


@pytest.fixture(autouse=True)
def _samples_keep_the_random_stream(monkeypatch):
    """The samples of random operators seed the generator within the program, which is no operator's business."""
    monkeypatch.setattr(samples_of_torch, "wrapper_set_seed", lambda op, *args, **kwargs: op(*args, **kwargs))


def inputs_of(sample):
    return [sample.input, *sample.args], sample.kwargs


def gradients(outputs, leaves):
    results = [o for o in pytree.tree_leaves(outputs) if isinstance(o, torch.Tensor) and o.requires_grad]
    if not results or not leaves:
        return ()
    return torch.autograd.grad(results, leaves, [torch.ones_like(r) for r in results], allow_unused=True)


def evaluate(fn, sample):
    torch.manual_seed(0)
    args, kwargs = pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), inputs_of(sample)
    )
    leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
    outputs = fn(*args, **kwargs)
    grads = gradients(outputs, leaves)
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (outputs, grads))


def in_half_precision(sample):
    leaves = pytree.tree_leaves(inputs_of(sample))
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bfloat16 for leaf in leaves)


class AsDescribed(fx.Interpreter):
    """Runs a graph whose every value has the dtype and the sizes that the graph says: a compiler relies on them."""

    def run_node(self, node):
        value = super().run_node(node)
        fakes = pytree.tree_leaves(node.meta.get("val"))
        for described, found in zip(fakes, pytree.tree_leaves(value), strict=False):
            if isinstance(found, torch.Tensor) and isinstance(described, torch.Tensor):
                pairs = zip(described.shape, found.shape, strict=True)
                sizes = [said if isinstance(said, int) else its for said, its in pairs]
                assert (node, described.dtype, sizes) == (node, found.dtype, list(found.shape))
        return value


def as_described(gm, _):
    return lambda inputs: AsDescribed(gm).run(*inputs)


def check(op, sample, **options):
    try:
        expected = evaluate(op.op, sample)
    except NotImplementedError:
        pytest.skip("this release of torch has no kernel of it for the CPU")
    ours = evaluate(aotgrad.function(op.op, forward=as_described, **options), sample)
    # Some formulas differ by a rounding: eager's gradient of prod looks for zeros first, and a trace cannot.
    rtol, atol = (2e-2, 2e-3) if in_half_precision(sample) else (1e-4, 1e-5)
    torch.testing.assert_close(ours, expected, rtol=rtol, atol=atol, equal_nan=True)


def samples(op, dtype):
    differentiable = (
        op.supports_autograd and (dtype.is_floating_point or dtype.is_complex) and dtype in op.backward_dtypes
    )
    return op.sample_inputs("cpu", dtype, requires_grad=differentiable)


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def outcome(op, sample):
    if name_of(op) in REFUSED:
        with pytest.raises(aotgrad.Unsupported):
            evaluate(aotgrad.function(op.op, forward=aotgrad.run_eagerly), sample)
    else:
        check(op, sample)


OPERATORS = [
    op for op in op_db if name_of(op) not in EXCLUDED and op.dtypes and not name_of(op).startswith("jiterator")
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPERATORS, ids=name_of)
def test_first_sample(op):
    dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else min(op.dtypes, key=str)
    outcome(op, next(iter(samples(op, dtype))))


@pytest.mark.filterwarnings("ignore")
def test_whatever_moves_the_generator_is_known_to_draw():
    known, drawing = set(), set()
    for op in OPERATORS:
        dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else min(op.dtypes, key=str)
        sample, names = next(iter(op.sample_inputs("cpu", dtype))), Called()
        before = torch.manual_seed(0).get_state()  # as `evaluate` seeds
        try:
            with names:
                evaluate(op.op, sample)
        except (RuntimeError, NotImplementedError):
            continue  # this release of torch has no kernel of it for the CPU
        if not torch.equal(torch.get_rng_state(), before):
            drawing.add(name_of(op))
        if any(map(may_draw, names.called)):
            known.add(name_of(op))
    assert drawing, "some draw"
    assert drawing <= known


class Called(TorchFunctionMode):
    """Notes the functions of torch that are called."""

    def __init__(self):
        super().__init__()
        self.called = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.called.append(func)
        return func(*args, **(kwargs or {}))


def test_attention_of_doubles_computes_in_doubles():
    """What its fake says of the sums that backward takes differs between releases of torch."""
    heads = torch.randn(3, 1, 2, 4, 8, dtype=torch.float64, requires_grad=True)
    attend = torch.nn.functional.scaled_dot_product_attention

    def loss(x):
        return attend(*x, is_causal=True).sin().sum()

    compiled = aotgrad.function(loss, forward=as_described)
    torch.testing.assert_close(*(torch.autograd.grad(f(heads), heads) for f in (compiled, loss)))


@pytest.mark.parametrize("weights", [None, torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_counts_are_described_as_they_are(weights):
    counted = torch.tensor([1, 1, 3], dtype=torch.int16)
    weights = None if weights is None else torch.ones(3, dtype=weights)
    ours = aotgrad.function(lambda x: torch.bincount(x, weights), forward=as_described)(counted)
    torch.testing.assert_close(ours, torch.bincount(counted, weights))


THOROUGH = [op for op in OPERATORS if name_of(op) not in REFUSED] if "AOTGRAD_ALL_SAMPLES" in os.environ else []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("op", THOROUGH, ids=name_of)
def test_all_samples(op, dtype):
    if op.supports_dtype(dtype, "cpu"):
        for sample in samples(op, dtype):
            check(op, sample)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", THOROUGH, ids=name_of)
def test_first_sample_in_core_operators(op):
    dtype = torch.float32 if op.supports_dtype(torch.float32, "cpu") else min(op.dtypes, key=str)
    check(op, next(iter(samples(op, dtype))), decompositions=aotgrad.decompositions.core())


@pytest.mark.parametrize("name", ["copysign", "heaviside", "logaddexp", "xlogy", "logical_and", "floor_divide", "pow"])
def test_results_of_operands_in_another_order_lie_as_in_eager(same_as_eager, name):
    """Torch's fakes of most of these spread the operands out first."""
    x, y = torch.rand(5, 1, 6).permute(2, 1, 0), torch.rand(5, 6).t() + 1
    same_as_eager(lambda x, y: getattr(torch, name)(x, y), x, y, times=1)
    same_as_eager(lambda y: 2.0**y, y, times=1)


def test_channels_that_are_shuffled_lie_as_in_eager(same_as_eager):
    image = torch.rand(2, 4, 3, 5).contiguous(memory_format=torch.channels_last)
    same_as_eager(lambda x: torch.nn.functional.channel_shuffle(x, 2), image)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_leaks_that_are_drawn_lie_as_in_eager(training, inplace):
    def run(fn):
        torch.manual_seed(0)
        x = torch.linspace(-1, 1, 21).view(7, 3).t().requires_grad_()
        y = fn(x)
        (grad,) = torch.autograd.grad(y, x, torch.arange(21.0).view(3, 7))
        return y, grad, *map(torch.Tensor.stride, (y, grad))

    def leaks(x):
        return torch.nn.functional.rrelu(x * 1, training=training, inplace=inplace)

    torch.testing.assert_close(run(aotgrad.function(leaks, forward=aotgrad.run_eagerly)), run(leaks))
    x = torch.randn(7, 3).t()
    assert aotgrad.function(torch.rrelu, forward=aotgrad.run_eagerly)(x).stride() == torch.rrelu(x).stride()


class Asked(TorchFunctionMode):
    """Every call is asked about before it is made."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        refuse_misfits(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


@cache
def written_into():
    """Each operator of tensors that writes into ``out``, with a sample and its result."""
    found = []
    for op in (op for op in OPERATORS if op.supports_out and torch.float32 in op.dtypes):
        sample = next(iter(samples(op, torch.float32)))
        given, result = sample.input, op(sample.input, *sample.args, **sample.kwargs)
        if isinstance(given, torch.Tensor) and isinstance(result, torch.Tensor) and given.layout is torch.strided:
            found.append((op, sample, result))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool])
@torch.no_grad()
def test_out_of_a_type_that_eager_refuses(kind):
    refused = 0
    for op, sample, result in written_into():
        program = partial(op, sample.input, *sample.args, **sample.kwargs)
        try:
            program(out=torch.empty_like(result, dtype=kind))
        except RuntimeError:
            refused += 1
            with Asked(), enable_python_dispatcher(), pytest.raises(FailsOnFakes):
                program(out=torch.empty_like(result, dtype=kind))
    assert refused > 10


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_rank_is_written_to_out(shape, same_as_eager):
    ranks = torch.full(shape, 7)
    same_as_eager(lambda x, out: torch.linalg.matrix_rank(x, out=out), torch.ones(*shape, 3, 3), ranks)
