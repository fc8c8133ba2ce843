"""Programs that start Triton kernels of their own, compiled and as they are.

On a GPU run by ``tests/gpu/test_triton_kernels.py``, without one by ``tests/test_19_triton_kernels.py`` under Triton's
interpreter, which takes tensors of the CPU.
"""

import copy
import itertools

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import aotgrad
import capture
import compile_api

# Triton 3.6's interpreter makes numbers of arrays, which numpy deprecates, and later refuses.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def doubled(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)


@triton.jit
def both(x, y, n, BLOCK: tl.constexpr):
    """Writes to two tensors, reading what it wrote where they are one."""
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) + 1, at < n)
    tl.debug_barrier()
    tl.store(y + at, tl.load(y + at, at < n) * 3, at < n)


trials = itertools.count(100, -1)


@triton.autotune(
    [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 128}, num_warps=8)],
    key=["n"],
    do_bench=None if DEVICE == "cuda" else lambda call, quantiles: (call(), [next(trials)] * 3)[1],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at) if EVEN else tl.load(x + at, at < n)
    tl.store(out + at, value + tl.num_programs(0), at < n)


@triton.jit
def scaled(x, out, factor, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) * factor, at < n)


@triton.jit
def normalised(x, w, out, scales, stride, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < n, other=0.0)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / n + eps)
    tl.store(scales + row, scale)
    tl.store(out + row * stride + at, value * scale * tl.load(w + at, mask=at < n), mask=at < n)


@triton.jit
def normalised_backward(grad, x, w, scales, grad_x, grad_w, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    g = tl.load(grad + row * stride + at, mask=at < n, other=0.0)
    value = tl.load(x + row * stride + at, mask=at < n, other=0.0)
    scale = tl.load(scales + row)
    tl.store(grad_w + row * stride + at, g * value * scale, mask=at < n)
    g *= tl.load(w + at, mask=at < n, other=0.0)
    mean = tl.sum(g * value, axis=0) / n
    tl.store(grad_x + row * stride + at, scale * g - scale * scale * scale * value * mean, mask=at < n)


class RMSNorm(torch.autograd.Function):
    """Written as the libraries of such kernels write it."""

    @staticmethod
    def forward(ctx, x, w, eps):
        shape = x.shape
        x = x.contiguous().view(-1, shape[-1])
        rows, n = x.shape
        out, scales = torch.empty_like(x), torch.empty(rows, device=x.device, dtype=torch.float32)
        ctx.block = triton.next_power_of_2(n)
        normalised[(rows,)](x, w, out, scales, x.stride(0), n, eps, BLOCK=ctx.block, num_warps=4)
        ctx.save_for_backward(x, w, scales)
        return out.view(shape)

    @staticmethod
    def backward(ctx, grad):
        x, w, scales = ctx.saved_tensors
        shape, grad = grad.shape, grad.contiguous().view(-1, grad.shape[-1])
        grad_x, grad_w = torch.empty_like(x), torch.empty_like(x)
        grid = lambda meta: (x.shape[0],)
        normalised_backward[grid](grad, x, w, scales, grad_x, grad_w, x.stride(0), x.shape[1], BLOCK=ctx.block)
        return grad_x.view(shape), grad_w.sum(0), None


@triton.autotune(
    [triton.Config({"ROWS": 16, "KEYS": 16}), triton.Config({"ROWS": 32, "KEYS": 16}, num_stages=2)],
    key=["n"],
    prune_configs_by={
        "early_config_prune": lambda configs, named, **rest: [c for c in configs if c.kwargs["ROWS"] < 32]
    },
    do_bench=None if DEVICE == "cuda" else lambda call, quantiles: (call(), [next(trials)] * 3)[1],
)
@triton.jit
def attended(q, k, v, out, step, row, n, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """Causal attention of one head per program, over the keys in pieces."""
    first, start = tl.program_id(0) * ROWS, tl.program_id(1) * step
    at, column = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    query = tl.load(q + start + at[:, None] * row + column[None, :], at[:, None] < n, 0.0) * scale
    largest, total = tl.full((ROWS,), -1e9, tl.float32), tl.zeros((ROWS,), tl.float32)
    result = tl.zeros((ROWS, WIDTH), tl.float32)
    for begin in range(0, n, KEYS):
        key_at = begin + tl.arange(0, KEYS)
        place = start + key_at[:, None] * row + column[None, :]
        key = tl.load(k + place, key_at[:, None] < n, 0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee")
        score = tl.where((at[:, None] >= key_at[None, :]) & (key_at[None, :] < n), score, -1e9)
        grown = tl.maximum(largest, tl.max(score, 1))
        weight, kept = tl.exp(score - grown[:, None]), tl.exp(largest - grown)
        total = total * kept + tl.sum(weight, 1)
        value = tl.load(v + place, key_at[:, None] < n, 0.0)
        result = result * kept[:, None] + tl.dot(weight, value, input_precision="ieee")
        largest = grown
    target = out + tl.program_id(1) * n * WIDTH + at[:, None] * WIDTH + column[None, :]
    tl.store(target, result / total[:, None], at[:, None] < n)


class Attention(torch.autograd.Function):
    """A forward that is a kernel, over strided views of one projection; a backward that computes it again."""

    @staticmethod
    def forward(ctx, q, k, v, scale):
        heads, n, width = q.shape
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        grid = lambda meta: (triton.cdiv(n, meta["ROWS"]), heads)
        with torch.cuda.device_of(q):
            attended[grid](q, k, v, out, q.stride(0), q.stride(1), n, scale, WIDTH=width)
        ctx.save_for_backward(q, k, v)
        ctx.scale = scale
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        with torch.enable_grad():
            inputs = [each.detach().requires_grad_() for each in ctx.saved_tensors]
            out = nn.functional.scaled_dot_product_attention(*inputs, is_causal=True, scale=ctx.scale)
        return *torch.autograd.grad(out, inputs, grad), None


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.project, self.back = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.project(x).view(-1, 3, 2, 16).permute(1, 2, 0, 3).unbind(0)
        return self.back(Attention.apply(q, k, v, 0.25).transpose(0, 1).reshape(x.shape)).relu()


@triton.jit
def loss_and_gradient(scores, wanted, loss, row, n, BLOCK: tl.constexpr):
    """Cross entropy of a row; its gradient takes the place of the scores."""
    at, here = tl.arange(0, BLOCK), tl.program_id(0)
    scores += here * row
    value, label = tl.load(scores + at, mask=at < n, other=-1e9), tl.load(wanted + here)
    weight = tl.exp(value - tl.max(value, 0))
    weight /= tl.sum(weight, 0)
    tl.store(loss + here, -tl.log(tl.sum(tl.where(at == label, weight, 0.0), 0)))
    tl.store(scores + at, weight - tl.where(at == label, 1.0, 0.0), mask=at < n)


class CrossEntropy(torch.autograd.Function):
    """Keeps no memory for its gradient: it lies in what was its input."""

    @staticmethod
    def forward(ctx, scores, wanted):
        rows, n = scores.shape
        loss = torch.zeros(rows, device=scores.device)
        loss_and_gradient[(rows,)](scores, wanted, loss, scores.stride(0), n, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(scores.detach())
        return loss.sum()

    @staticmethod
    def backward(ctx, grad):
        (gradient,) = ctx.saved_tensors
        return gradient * grad, None


class Predicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(24, 50)

    def forward(self, x):
        wanted = (x.abs().sum(-1) * 10).long() % 50
        return CrossEntropy.apply(self.head(x.sin()), wanted) / x.shape[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(48))
        self.linear = nn.Linear(48, 48)

    def forward(self, x):
        return self.linear(RMSNorm.apply(self.linear(x), self.weight, 1e-6).relu()).sin()


# -- functions of two tensors of 384 elements ------------------------------------------------------------------------


def between_others(x, y):
    x = x * 2
    out = torch.empty_like(x)
    added[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out.relu() + 1


def in_place(x, y):
    z = x.sin()
    doubled[(3,)](x, x.numel(), 128)
    doubled[(3,)](z, x.numel(), 128)
    return z + 1, x.cos()


def into_views(x, y):
    z = (x + y).reshape(20, -1)
    window = z[:, 3:7]
    doubled[lambda meta: (1,)](window, 20, BLOCK=32)
    doubled[lambda meta: (1,)](z[2:], 20, BLOCK=32)
    added[(1,)](z, z[2:], z[6:], 32, BLOCK=32)
    return window * 1, z


def over_an_argument(x, y):
    part = x.view(-1)[20:]
    doubled[(1,)](part, 20, BLOCK=32)
    added[(1,)](x, part, x.view(10, -1)[:2], 25, BLOCK=32)
    return x.sum(), part + 1


def two_shapes_of_one(x, y):
    z = x * 2
    added[(1,)](z, z.view(20, -1), z, 40, BLOCK=64)
    both[(1,)](z, z.view(-1, 20), 20, BLOCK=32)
    return z, z.view(2, -1)


class TwoShapes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return two_shapes_of_one(x, None)[0]

    @staticmethod
    def backward(ctx, grad):
        return two_shapes_of_one(grad, None)[0]


def two_shapes_traced(x, y):
    return TwoShapes.apply(x.sin()) * y


def one_after_another(x, y):
    out = torch.zeros_like(x)
    added[(3,)](x, y, out, 100, BLOCK=128)
    kept = out.clone()
    doubled[(3,)](out, 50, BLOCK=128)
    return kept - out, out.sum()


def by_configuration(x, y):
    out = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x * y, out, x.numel())
    return out - y


def without_history(x, y):
    a = x.exp()
    out = torch.empty_like(a)
    added[(triton.cdiv(x.numel(), 128),)](a, y, out, x.numel(), BLOCK=128)
    return (out * a).sum(), out


def into_what_backward_reads(x, y):
    a = x * 3
    b = a.sin()
    doubled[(3,)](a, x.numel(), 128)
    return (a * b).sum()


FUNCTIONS = [
    between_others, two_shapes_of_one, two_shapes_traced,
    in_place, into_views, over_an_argument, one_after_another, by_configuration, without_history,
    into_what_backward_reads,
]  # fmt: skip


def is_whole(compiled):
    report = compile_api.report(compiled)
    assert (report.breaks, report.refused, report.left_alone) == ((), (), ())
    assert report.own_kernels
    return report


def run(function, x, y, training):
    x.requires_grad_(training)
    results = function(x, y)
    results = results if isinstance(results, tuple) else (results,)
    if followed := [result.sum() for result in results if result.requires_grad]:
        sum(followed).backward()
    return results, [result.requires_grad for result in results], x.detach(), x.grad


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function, training):
    compiled = compile_api.compile(function)
    for size in (300, 300, 360, 640):
        inputs = [torch.randn(size, device=DEVICE) for _ in range(2)]
        ours = run(compiled, *copy.deepcopy(inputs), training)
        torch.testing.assert_close(ours, run(function, *inputs, training))
    is_whole(compiled)


@pytest.mark.parametrize("varying", [False, True])
@pytest.mark.parametrize(("kind", "sizes"), [(Net, (2, 3, 48)), (Attends, (37, 32)), (Predicts, (6, 24))])
def test_a_function_with_a_backward_of_its_own(kind, sizes, varying):
    plain = kind().to(DEVICE)
    compiled = compile_api.compile(copy.deepcopy(plain))
    *others, rows, width = sizes
    for step in range(3):
        x = torch.randn(*others, rows + varying * step, width, device=DEVICE)
        theirs, ours = plain(x), compiled(x)
        torch.testing.assert_close(ours, theirs)
        for model, result in ((plain, theirs), (compiled, ours)):
            model.zero_grad()
            result.sum().backward()
        for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
    report = is_whole(compiled)
    assert {graph.direction for graph in report.compiled} == {"forward", "backward"}


def test_floats_that_only_the_run_knows():
    def function(x, factor):
        out = torch.empty_like(x)
        scaled[(1,)](x * 2, out, factor * 3.0, 8, BLOCK=8)
        scaled[(1,)](out, x, out.max().item(), 8, BLOCK=8)
        return out.sin() * factor

    compiled = compile_api.compile(function)
    for factor in (0.1, 0.7, 2.5, 3.25):
        ours, theirs = (torch.arange(8.0, device=DEVICE) for _ in range(2))
        torch.testing.assert_close(compiled(ours, factor), function(theirs, factor))
        torch.testing.assert_close(ours, theirs)
    assert len(is_whole(compiled).captured) == 2


class TunedByRun(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        out = torch.empty_like(grad)
        tuned.run(grad, out, grad.numel(), grid=lambda meta: (triton.cdiv(64, meta["BLOCK"]),), warmup=False)
        return out


def test_a_backward_that_cannot_be_traced_runs_as_it_is():
    compiled = compile_api.compile(lambda x: TunedByRun.apply(x).sin())
    ours, theirs = (torch.ones(64, device=DEVICE, requires_grad=True) for _ in range(2))
    compiled(ours).sum().backward()
    TunedByRun.apply(theirs).sin().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    (broken,) = compile_api.report(compiled).breaks
    assert "a Triton kernel is started as it is" in str(broken)


def test_the_neighbours_of_a_kernel_are_fused_without_copies():
    compiled = compile_api.compile(lambda x, y: between_others(x, y))
    compiled(torch.randn(300, device=DEVICE), torch.randn(300, device=DEVICE))
    report = is_whole(compiled)
    (graph,) = report.compiled
    assert (len(graph.kernels), graph.fallbacks) == (2, ())
    assert "your Triton kernels 1 (added), called as they are" in str(report)


def test_an_error_of_a_kernel_is_raised_as_it_is():
    def function(x):
        x = x * 1
        doubled[(1,)](x, 8, BLOCK=7)
        return x + 1

    with pytest.raises(Exception) as plain:
        function(torch.ones(8, device=DEVICE))
    with pytest.raises(type(plain.value)):
        compile_api.compile(function)(torch.ones(8, device=DEVICE))


# -- programs nobody thought of --------------------------------------------------------------------------------------

STEPS = {
    "sin": lambda a, b, c, share: a.sin(),
    "clone": lambda a, b, c, share: a.clone(),
    "zeros": lambda a, b, c, share: torch.zeros_like(a),
    "rows": lambda a, b, c, share: a[1:] if a.shape[0] > 2 else None,
    "every second": lambda a, b, c, share: a[::2] if a.shape[0] > 2 else None,
    "columns": lambda a, b, c, share: a[:, 1:] if a.dim() > 1 else None,
    "other shape": lambda a, b, c, share: a.view(4, -1) if a.is_contiguous() and a.numel() % 4 == 0 else None,
    "turned": lambda a, b, c, share: a.t() if a.dim() == 2 else None,
    "in place": lambda a, b, c, share: a.data.add_(1),
    "double": lambda a, b, c, share: doubled[(1,)](a, 1 + a.numel() * share // 10, BLOCK=32),
    "both": lambda a, b, c, share: both[(1,)](a, b, min(a.numel(), b.numel()), BLOCK=32),
    "add": lambda a, b, c, share: added[(1,)](a, b, c, min(a.numel(), b.numel(), c.numel()), BLOCK=32),
}
"""What a step makes of three of the tensors there are; nothing, where it writes to one of them."""
ARGUMENTS = {
    "apart": lambda x: (x, x * 3),
    "a view": lambda x: (x, x.view(4, 6)),
    "one": lambda x: (x, x),
    "shapes": lambda x: (x.view(6, 4), x.view(4, 6) + 1),
}
drawn = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), *[st.integers(0, 9)] * 4), min_size=2, max_size=9)


def program(steps):
    def function(x, y):
        held = [x, y]
        for kind, *chosen, share in steps:
            made = STEPS[kind](*(held[number % len(held)] for number in chosen), share)
            if isinstance(made, torch.Tensor) and kind != "in place":
                held.append(made)
        return (*held[2:], x * 1, y * 1)

    return function


def with_a_backward(function):
    """The same in a forward that a backend traces by itself."""

    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return tuple(each * 1 for each in function(x * 1, y * 1))

        @staticmethod
        def backward(ctx, *grads):
            return grads[-2:]

    return lambda x, y: Forward.apply(x, y)


def check_program(steps, arguments, training, backend, within):
    capture.reset()
    function = with_a_backward(program(steps)) if within else program(steps)
    compiled = compile_api.compile(function, backend=backend)
    for number in range(2):
        results = []
        for each in (function, compiled):
            x, y = ARGUMENTS[arguments](torch.arange(24.0, device=DEVICE) / 10 + number)
            results.append(run(each, x, y, training and x is not y and arguments != "a view"))
            results[-1] += (y.detach(),)
        torch.testing.assert_close(*results)


def as_torch_runs_it(gm, example_inputs):
    return aotgrad.compile(gm, example_inputs, forward=aotgrad.run_eagerly)


quick = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@settings(quick, max_examples=60)
@given(
    drawn,
    st.sampled_from(sorted(ARGUMENTS)),
    st.booleans(),
    st.sampled_from(["eager", as_torch_runs_it]),
    st.booleans(),
)
def test_random_programs(steps, arguments, training, backend, within):
    check_program(steps, arguments, training, backend, within)


@settings(quick, max_examples=15)
@given(drawn, st.sampled_from(sorted(ARGUMENTS)), st.booleans(), st.booleans())
def test_random_programs_as_kernels(steps, arguments, training, within):
    check_program(steps, arguments, training, "inductor", within)
