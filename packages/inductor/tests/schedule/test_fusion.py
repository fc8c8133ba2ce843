"""What shares a kernel, and what does not."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, kernels, program_of

from inductor.ir.program import Allocate, Launch
from inductor.ir.show import kernel_text

R = torch.randn


def H(*shape):
    return torch.randn(shape).bfloat16()


def attention(q, k, v, mask):
    scores = (q @ k.transpose(-1, -2)) / 8.0
    probabilities = scores.masked_fill(mask, float("-inf")).softmax(-1)
    return probabilities @ v, probabilities


ONE_KERNEL = {
    "relu into its producer": (lambda x, y: (x + y).relu(), R(8, 64), R(8, 64)),
    "a chain with a shared value": (lambda x, y: (x.exp() + y, x.exp() * y, x.exp().relu()), R(8, 64), R(8, 64)),
    "softmax": (lambda x: F.softmax(x * 2, -1), R(64, 33)),
    "masked softmax": (lambda x, m: F.softmax(x.masked_fill(m, float("-inf")), -1), R(64, 33), R(64, 33) > 0),
    "log_softmax of a product": (lambda x, y: F.log_softmax(x * y.exp(), -1), R(64, 33), R(33)),
    "layer norm": (lambda x, w: F.layer_norm(x, (33,), w, w), R(64, 33), R(33)),
    "residual, norm, gelu": (lambda x, y, w: F.gelu(F.layer_norm(x + y, (33,), w, w)), R(64, 33), R(64, 33), R(33)),
    "residual kept": (lambda x, y, w: (x + y, F.layer_norm(x + y, (33,), w, w)), R(64, 33), R(64, 33), R(33)),
    "rms norm and gate": (lambda x, y, w: F.silu(F.rms_norm(x, (33,), w)) * y, R(64, 33), R(64, 33), R(33)),
    "siblings": (lambda x: (x.relu(), x.sigmoid(), x * 2), R(64, 33)),
    "reductions over the same rows": (lambda x: (x.sum(1), x.amax(1), x.mean(1)), R(64, 33)),
    "reduction with an epilogue": (lambda x: x.sum(1).relu() + 1, R(64, 33)),
    "batch norm in training": (lambda x, w: F.batch_norm(x, None, None, w, w, True).relu(), R(4, 64, 5, 5), R(64)),
    "group norm": (lambda x, w: F.group_norm(x, 4, w, w), R(16, 8, 5, 5), R(8)),
    "cast, residual and norm": (lambda x, y: F.layer_norm(x.float() + y.float(), (33,)), H(64, 33), H(64, 33)),
    "softmax backward": (lambda g, y: torch.ops.aten._softmax_backward_data(g, y, -1, g.dtype), R(64, 33), R(64, 33)),
    "prologue, reductions, epilogue": (lambda x: (x.exp().sum(1) + x.exp().amax(1)).log(), R(64, 33)),
    "pool with activation": (lambda x: F.avg_pool2d(x.relu(), 2).sigmoid(), R(2, 64, 6, 6)),
    "running sum of a softmax": (lambda x: x.softmax(-1).cumsum(-1), R(64, 33)),
    "an optimizer's step": (lambda p, g, m: (p - 0.1 * (m * 0.9 + g), m * 0.9 + g), R(640), R(640), R(640)),
    "through a reshape": (lambda x: F.softmax((x + 1).view(64, 8, 4), -1).view(64, 32) * 2, R(64, 32)),
    "transpose and add": (lambda x, y: x.t() + y, R(300, 500), R(500, 300)),
    "a mean and what is left of it": (lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1), R(64, 33)),
    "batch norm backward": (
        lambda g, x, w, m, r: torch.ops.aten.native_batch_norm_backward(
            g * 2, x, w, None, None, m, r, True, 1e-5, [True, True, True]
        ),
        *[R(4, 64, 5, 5)] * 2,
        *[R(64)] * 3,
    ),
    "swiglu": (lambda x, y: F.silu(x) * y, R(64, 33), R(64, 33)),
    "gelu backward": (lambda g, x: torch.ops.aten.gelu_backward(g, x) + g, R(64, 33), R(64, 33)),
    "one-hot and its use": (lambda k, x: (F.one_hot(k, 33) * x).sum(-1), torch.arange(64) % 33, R(64, 33)),
    "triangle and softmax": (lambda x: (x + torch.full((33, 33), -1e9).triu(1)).softmax(-1), R(4, 33, 33)),
    "rotary positions": (
        lambda x, c, s: x * c + torch.cat([-x[..., 16:], x[..., :16]], -1) * s,
        *[R(2, 4, 8, 32)],
        *[R(8, 32)] * 2,
    ),
    "through a transpose": (lambda x: (x.exp() + 1).t() * 2, R(64, 33)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel(name):
    function, *inputs = ONE_KERNEL[name]
    assert kernels(function, *inputs) == 1
    check(function, *inputs, atol=1e-5, rtol=1e-4)


def test_what_one_product_takes_turned_shares_a_kernel_with_what_another_made():
    """Backward of two layers: the activation, computed again, for the weight's gradient, and the gradient itself."""

    def backward(x, weight, grad):
        h = torch.tanh(x)
        return (h * x).view(-1, 33).t() @ grad, (1 - h * h) * (grad @ weight).view(4, 16, 33)

    inputs = R(4, 16, 33), R(16, 33), R(64, 16)
    assert kernels(backward, *inputs) == 1
    check(backward, *inputs, atol=1e-4, rtol=1e-4)


def test_a_library_call_separates_kernels():
    q, mask = R(4, 16, 8), R(4, 16, 16) > 0
    assert kernels(attention, q, q, q, mask) == 1
    check(attention, q, q, q, torch.zeros(4, 16, 16, dtype=torch.bool))


def test_strangers_stay_apart():
    assert kernels(lambda x, y: (x + 1, y * 2), R(8), R(9)) == 2
    assert kernels(lambda x, y: (x + 1, y * 2), R(8), R(8)) == 2


def test_a_full_reduction_does_not_take_the_work_of_its_user():
    function = lambda x: x / x.sum()
    assert kernels(function, R(1024, 512)) == 2
    check(function, R(64, 32).exp())


def test_a_value_between_two_passes_is_recomputed_when_cheap():
    program = program_of(lambda x: F.softmax(x, -1), R(64, 33))
    (kernel,) = [step.kernel for step in program.steps if isinstance(step, Launch)]
    assert [argument.role for argument in kernel.arguments] == ["in", "out"]
    assert kernel_text(kernel).count("exp(") == 2


def test_no_cycle_through_a_call():
    def function(x, y):
        a = x.exp() + y
        b = torch.sort(a)[0]
        return a * 2 + b.exp() * x, a.relu()

    check(function, R(6, 5), R(6, 5))


def test_writes_wait_for_reads():
    def function(x):
        y = x * 2
        x.copy_(x.flip(0))
        return y + 1

    check(function, R(5, 5))


def test_an_optimizer_step_is_one_kernel_per_parameter():
    def step(p, g, m):
        m.mul_(0.9).add_(g)
        p.sub_(m, alpha=0.1)

    assert kernels(lambda p, g, m: step(p, g, m), R(8, 3), R(8, 3), R(8, 3)) == 1
    check(lambda p, g, m: step(p, g, m), R(8, 3), R(8, 3), R(8, 3))


# -- loop order and memory --------------------------------------------------------------------------------------------


def axes_of(function, *inputs):
    (kernel,) = [step.kernel for step in program_of(function, *inputs).steps if isinstance(step, Launch)]
    return [str(axis.size) for axis in kernel.axes]


def test_contiguous_axes_are_one():
    assert axes_of(lambda x: x + 1, R(3, 4, 5)) == ["60"]
    assert axes_of(lambda x, y: x + y, R(3, 4, 5), R(5)) == ["12", "5"]


def test_the_axis_with_the_smallest_stride_is_innermost():
    assert axes_of(lambda x: x.t() + 1, R(6, 8)) == ["48"]
    assert axes_of(lambda x, y: x + y.t(), R(6, 8), R(8, 6)) == ["6", "8"]


def allocations(function, *inputs):
    return [step for step in program_of(function, *inputs).steps if isinstance(step, Allocate)]


def test_a_dying_input_of_a_kernel_is_written_over():
    function = lambda x, w: ((x @ w).relu() @ w).relu()
    assert all(step.reuse is None for step in allocations(lambda x: (x + 1).sin(), R(8, 8)))
    steps = allocations(lambda x, w: torch.sort((torch.sort(x + 1)[0]).exp() + w)[0].exp(), R(8, 8), R(8, 8))
    assert any(step.reuse is not None for step in steps)
    check(function, R(8, 8), R(8, 8), atol=1e-4, rtol=1e-4)


def test_dead_memory_is_used_again():
    def function(x):
        for _ in range(4):
            x = torch.sort((x + 1).cos())[0]
        return x

    steps = allocations(function, R(8, 8))
    assert sum(step.reuse is None for step in steps) == 1
    check(function, R(8, 8))


def test_a_thousand_operators_become_few_kernels():
    def function(x):
        for number in range(300):
            x = (x * 1.01).sin() + number
        return x

    assert kernels(function, R(64)) < 10


def test_a_value_used_twice_again_and_again_takes_no_exponential_time():
    def squared(x):
        for _ in range(60):
            x = x * x
        return x

    check(squared, torch.ones(5))
