"""First and second gradients at zeros, kinks, infinities and NaN are eager's, as is which of them there are.

All operators of torch's list that work element by element, activations, losses and their like; many share one compiled
function.  A run draws some of them; ``SWEEPS=all`` runs all.
"""

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo
from torch.utils._pytree import tree_leaves, tree_map

import aotgrad
import compile_api
import inductor

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # those of the operators
    pytest.mark.without_graphs("operators that are taken apart, and no more, are not captured", cases="some"),
]
ALL = os.environ.get("SWEEPS") == "all"
TOGETHER = 12
WIDE = 64  # elements of whole vectors: behind the last of them torch's kernels may give others
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    math.inf,
    -math.inf,
    math.nan,
    1e30,
    -1e30,
    1e-30,
    3.0,
    -3.0,
    6.0,
    20.0,
    100.0,
)
PROBABILITIES = (0.0, 1.0, 0.5, 1e-30, 0.25)  # where an operator refuses what is none
OF_NN = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "cosine_embedding_loss",
    "cosine_similarity", "cross_entropy", "elu", "gaussian_nll_loss", "gelu", "glu", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "leaky_relu", "logsigmoid",
    "margin_ranking_loss", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "normalize", "pairwise_distance", "poisson_nll_loss", "prelu",
    "relu", "relu6", "rrelu", "selu", "silu", "smooth_l1_loss", "soft_margin_loss", "softmin", "softplus",
    "softshrink", "softsign", "tanhshrink", "threshold", "triplet_margin_loss", "triplet_margin_with_distance_loss",
)  # fmt: skip
OTHERS = (
    "addcdiv", "addcmul", "amax", "amin", "cdist", "clamp", "clamp_max", "clamp_min", "cumprod",
    "cumulative_trapezoid", "dist", "lerp", "linalg.vector_norm", "log_softmax", "logcumsumexp", "logsumexp",
    "masked_fill", "max", "maximum", "min", "minimum", "nanmean", "nansum", "norm", "prod", "renorm", "softmax",
    "special.log_softmax", "special.softmax", "std", "trapezoid", "var", "where",
)  # fmt: skip
DIFFER = {
    "nn.functional.mish": "second gradients of large numbers: 0, which eager has as NaN",
    "prod": "of zeros beside NaN and infinities eager chooses its formula by the elements",
    "cumprod": "second gradients of elements of which one is zero are refused",
}
"""As docs/faq.md says."""
WHERE_NUMBERS_VARY = {"nn.functional.threshold"}
"""By a number that varies its gradients with a graph do not require grad (docs/faq.md)."""


def is_swept(op):
    name = op.name.removeprefix("nn.functional.")
    named = name in OF_NN if name != op.name else name in OTHERS
    works = op.supports_autograd and torch.float32 in op.dtypes
    return works and (named or isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo))


OPERATORS = [op for op in op_db if is_swept(op)]


@dataclass
class Case:
    """A function of some tensors, those, which of them require grad, and their gradients in eager."""

    name: str
    function: Callable
    given: list
    follow: list
    expected: list | None = None


def is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.layout is torch.strided


def cases_of(op, dtype, draw):
    """A case for each set of numbers and flags that an operator's samples have, of those that eager takes."""
    kinds = {}
    for sample in op.sample_inputs("cpu", dtype):
        leaves = tree_leaves((sample.input, sample.args, sample.kwargs))
        if is_float(sample.input) and sample.input.numel() and sample.kwargs.get("training") is not True:
            kinds.setdefault(str([None if isinstance(each, torch.Tensor) else each for each in leaves]), sample)
    found = []
    for number, sample in enumerate(kinds.values()):
        own = [float(each) for each in tree_leaves((sample.args, sample.kwargs)) if isinstance(each, int | float)]
        for numbers in ([*SPECIAL, *own, *(-each for each in own)], PROBABILITIES):
            tried = (
                taken(f"{op.name} {number}", op, sample, operands)
                for operands in operands_of(op, sample, numbers, draw)
            )
            if made := next(filter(None, tried), []):
                found += made
                break
    return found


def taken(name, op, sample, operands):
    """The function of all its operands, and of the first alone, if eager takes these."""
    given = (sample.input, list(sample.args), dict(sample.kwargs))
    places = {id(each): number for number, each in enumerate(filter(is_float, tree_leaves(given)))}

    def function(*made):
        input, args, kwargs = tree_map(lambda each: made[places[id(each)]] if id(each) in places else each, given)
        return op(input, *args, **kwargs)

    first = [True] + [False] * (len(operands) - 1)
    kinds = [Case(name, function, operands, [True] * len(first)), Case(f"{name} alone", function, operands, first)]
    kinds = kinds if len(first) > 1 else kinds[:1]
    for case in kinds:
        case.expected = eagers(case)
    return [case for case in kinds if case.expected]


def operands_of(op, sample, numbers, draw):
    """Ways to put the numbers among ordinary ones: in one tensor, two of each with each, or in those of the sample."""
    tensors = [
        each for each in tree_leaves((sample.input, sample.args, sample.kwargs)) if isinstance(each, torch.Tensor)
    ]
    floats = [each for each in tensors if is_float(each)]
    ordinary = draw.random if numbers is PROBABILITIES else lambda: draw.uniform(-2, 2)
    dtype, values = sample.input.dtype, [*numbers, *(ordinary() for _ in range(8))]
    if len(tensors) == 1 and (isinstance(op, UnaryUfuncInfo) or op.name.startswith("nn.")):
        yield [torch.tensor([*values, *(ordinary() for _ in range(-len(values) % WIDE))], dtype=dtype)]
    if isinstance(op, BinaryUfuncInfo) and len(tensors) == len(floats) == 2:
        values = torch.tensor([*values, *(ordinary() for _ in range(-len(values) % 8))], dtype=dtype)
        yield [each.contiguous() for each in torch.cartesian_prod(values, values).unbind(1)]
    else:
        yield [spoilt(each, values, draw) for each in floats]


def spoilt(tensor, values, draw):
    """A copy with such values at about every other place."""
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    for place in range(copy.numel()):
        if draw.random() < 0.5:
            copy.view(-1)[place] = draw.choice(values)
    return copy


def apart(tensor):
    """The same values with gaps between them: torch's kernels for CPUs compute those one at a time."""
    return torch.empty(*tensor.shape, 2, dtype=tensor.dtype).select(-1, 0).copy_(tensor)


def eagers(case):
    """Gradients of contiguous tensors and of others, which may differ in eager; None where it refuses."""
    try:
        return [gradients(lambda given: [case.function(*given[0])], [case], lay)[0] for lay in (torch.clone, apart)]
    except (RuntimeError, ValueError, TypeError, IndexError):
        return None


def gradients(function, cases, lay=torch.clone):
    """For each case and each of its tensors that requires grad: the gradient, that of a graph of gradients, whether
    this requires grad, and the second one."""
    given = [[lay(each) for each in case.given] for case in cases]
    groups = [
        [each for each, yes in zip(one, case.follow, strict=True) if yes]
        for one, case in zip(given, cases, strict=True)
    ]
    leaves = [each.requires_grad_() for one in groups for each in one]
    plain = torch.autograd.grad(total(function(given)), leaves, allow_unused=True)
    first = torch.autograd.grad(total(function(given)), leaves, create_graph=True, allow_unused=True)
    follow = [each is not None and each.requires_grad for each in first]
    squares = [each.square().sum() for each, yes in zip(first, follow, strict=True) if yes]
    second = torch.autograd.grad(sum(squares), leaves, allow_unused=True) if squares else [None] * len(leaves)
    found = iter(zip(plain, first, follow, second, strict=True))
    return [[next(found) for _ in one] for one in groups]


def total(results):
    floats = [each for each in tree_leaves(results) if is_float(each) and each.requires_grad]
    weights = (torch.linspace(0.5, 2, each.numel(), dtype=each.dtype).view(each.shape) for each in floats)
    return sum((each * by).sum() for each, by in zip(floats, weights, strict=True))


def difference(case, found):
    """What differs from both of eager's, as text."""
    for number, ours in enumerate(found):
        expected = [each[number] for each in case.expected]
        if [each is None for each in ours] != [each is None for each in expected[0]] or ours[2] != expected[0][2]:
            return f"{case.name}: which gradients of {number} there are, {ours} and not {expected[0]}"
        for kind, place in (("first", 0), ("first, with a graph,", 1), ("second", 3)):
            if ours[place] is not None:
                same = torch.stack([close(ours[place], each[place]) for each in expected]).any(0)
                if not same.all():
                    other = expected[0][place][~same]
                    return f"{case.name}: {kind} gradient of {number}, {ours[place][~same]} and not {other}"
    return ""


def close(one, other):
    by = 1e-4 if one.dtype == torch.float32 else 1e-9
    return torch.isclose(one, other, rtol=by, atol=by, equal_nan=True)


def compiled(cases, backend, dynamic):
    def run(given):
        return [case.function(*each) for case, each in zip(cases, given, strict=True)]

    if backend != "taken apart":
        compile_api.reset()
        return compile_api.compile(run, backend=backend, dynamic=dynamic)
    apart = inductor.decompositions()
    return aotgrad.function(run, forward=aotgrad.run_eagerly, decompositions=apart, dynamic=dynamic)


def differences(cases, backend, dynamic):
    """Of many cases in one function; where it fails as a whole, of each alone."""
    try:
        found = gradients(compiled(cases, backend, dynamic), cases)
    except aotgrad.errors.FailsOnFakes:  # left to eager
        return [text for case in cases for text in differences([case], backend, dynamic)] if len(cases) > 1 else []
    except (aotgrad.AotgradError, RuntimeError) as error:
        if len(cases) == 1:
            return [f"{cases[0].name}: {error}"]
        return [text for case in cases for text in differences([case], backend, dynamic)]
    return [text for text in map(difference, cases, found) if text]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "varying"])
@pytest.mark.parametrize(("backend", "count"), [("taken apart", 8), ("aot_eager", 4), ("inductor", 2)])
def test_gradients_are_eagers(backend, count, dynamic, dtype):
    told = {*DIFFER, *WHERE_NUMBERS_VARY} if dynamic else DIFFER
    swept = [op for op in OPERATORS if op.name not in told]
    draw = random.Random(0) if ALL else random.Random()
    cases = [case for op in (swept if ALL else draw.sample(swept, count)) for case in cases_of(op, dtype, draw)]
    cases = cases if ALL else draw.sample(cases, min(2 * count, len(cases)))
    parts = [cases[start : start + TOGETHER] for start in range(0, len(cases), TOGETHER)]
    found = [text for part in parts for text in differences(part, backend, dynamic)]
    print(len(cases), "cases of", backend, dtype, "sizes that vary" if dynamic else "", *found, sep="\n")
    assert not found, f"{len(found)} of {len(cases)}: " + "\n".join(found)


@pytest.mark.parametrize("name", DIFFER)
def test_those_that_differ_are_told_of(name):
    """Take it off the list, and out of the documentation, where it does no more."""
    cases = [case for op in OPERATORS if op.name == name for case in cases_of(op, torch.float32, random.Random(0))]
    assert differences(cases, "taken apart", False)


def test_a_threshold_that_varies_is_told_of():
    f = compile_api.compile(torch.nn.functional.threshold, backend="aot_eager")
    follow = []
    for number in (0.1, 0.2, 0.3):
        x = torch.randn(8, requires_grad=True)
        follow.append(torch.autograd.grad(f(x, number, 0.0).sum(), x, create_graph=True)[0].requires_grad)
    assert follow == [True, False, False]
