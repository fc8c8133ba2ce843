"""What runs as it is: library kernels, unknown and custom operators, mutation, random numbers."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, fallbacks, kernels, traced
from reference import run_program

from inductor.lower import lower
from inductor.schedule import schedule

CASES = {
    "matmul": lambda x: F.relu(x @ x.t()) + 1,
    "linear": lambda x: F.gelu(F.linear(x, x, x[:, 0])),
    "bmm": lambda x: (x[None] @ x.t()[None].expand(2, 7, 5)).softmax(-1),
    "conv": lambda x: F.conv2d(x.expand(2, 3, 5, 7), torch.ones(4, 3, 3, 3)).relu(),
    "sort": lambda x: torch.sort(x * 2, 1),
    "topk": lambda x: x.topk(3),
    "cumsum": lambda x: (x + 1).cumsum(1) * 2,
    "pools": lambda x: (F.max_pool2d(x[None], 2), F.avg_pool2d(x[None], 2), F.adaptive_avg_pool2d(x[None], 1)),
    "sdpa": lambda x: F.scaled_dot_product_attention(*[torch.stack([x, x * 2])[None] * k for k in (1, 2, 3)]),
    "complex": lambda x: torch.view_as_real(torch.fft.fft(x)) + 1,
    "svd": lambda x: torch.linalg.svdvals(x),
}


@pytest.mark.parametrize("name", CASES)
def test_library_and_unknown_operators(name):
    check(CASES[name], torch.randn(5, 7), atol=1e-5, rtol=1e-5)


def test_matrix_products_are_no_fallback_but_sort_is():
    assert fallbacks(lambda x: x @ x.t(), torch.randn(3, 3)) == []
    assert fallbacks(lambda x: x.sort()[0], torch.randn(3)) == ["aten.sort.default"]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_an_operator_that_gives_several_lists(count, amsgrad):
    def fused(x):
        rows, steps = [list((x * k).unbind()) for k in range(1, 6)], [x[0, 0] * 0 + 2 for _ in range(count)]
        largest = rows[4] if amsgrad else []
        rates = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-3}
        return torch.ops.aten._fused_adam(*rows[:4], largest, steps, **rates, amsgrad=amsgrad, maximize=False)

    check(fused, torch.rand(count, 4))


def test_a_call_gets_a_window_and_no_copy():
    assert kernels(lambda x: x[1:].t() @ x[1:], torch.randn(5, 7)) == 0


def filled(x, value):
    x.fill_(value)


@pytest.fixture(scope="module")
def library():
    library = torch.library.Library("inductor_tests", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.define("two(Tensor x, int[] sizes) -> (Tensor, Tensor)")
    library.define("fill_(Tensor(a!) x, float value) -> ()")
    for key in ("CPU", "Meta"):
        library.impl("twice", lambda x: (x * 2).contiguous(), key)
        library.impl("two", lambda x, sizes: (x + 1, x.reshape(sizes).clone()), key)
    library.impl("fill_", filled, "CPU")
    library.impl("fill_", lambda x, value: None, "Meta")
    yield torch.ops.inductor_tests
    library._destroy()


def test_custom_operators(library):
    check(lambda x: library.twice(x + 1).relu(), torch.randn(3, 4))
    check(lambda x: sum(library.two(x * 2, [3, 4])), torch.randn(3, 4))


def test_custom_operators_that_write(library):
    def function(x):
        before = x * 2
        library.fill_(x, 3.0)
        return before, x + 1

    check(function, torch.randn(3, 4))


MUTATION = {
    "in place": lambda x: x.add_(1).mul_(2),
    "read before and after": lambda x: (x * 2, x.add_(1), x * 3)[0::2],
    "a view": lambda x: (x[1].zero_(), x.sum())[1],
    "copy": lambda x: x.copy_(x.flip(0)),
    "a slice of a slice": lambda x: (x[:, 1:][::2].copy_(torch.arange(6)), x * 2)[1],
    "transposed": lambda x: x.t().mul_(torch.arange(5)),
    "local": lambda x: torch.zeros(5, 7).add_(x).relu_(),
    "running": lambda x: (x[0].mul_(0.9).add_(x[1], alpha=0.1), x * 2)[1],
}


@pytest.mark.parametrize("name", MUTATION)
def test_mutation(name):
    check(MUTATION[name], torch.randn(5, 7), exact_strides=False)


def test_random_numbers_come_from_eagers_stream():
    x = torch.randn(50)
    gm = traced(lambda x: (F.dropout(x, 0.5), torch.rand_like(x) + x, torch.randn(3)), x)
    program = schedule(lower(gm))
    torch.manual_seed(7)
    ours = run_program(program, [x])
    torch.manual_seed(7)
    theirs = [F.dropout(x, 0.5), torch.rand_like(x) + x, torch.randn(3)]
    torch.testing.assert_close(ours, theirs)


def test_a_graph_of_torch_functions_is_traced_again():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(7, 4)

        def forward(self, x):
            return torch.relu(self.linear(x)).add_(1)

    net, x = Net(), torch.randn(5, 7)
    gm = torch.fx.symbolic_trace(net)
    from inductor.decompose import prepare

    graph = lower(prepare(gm, [x]))
    with torch.no_grad():
        torch.testing.assert_close(run_program(schedule(graph), [x], graph.constants)[0], net(x))


FOREACH = {
    "add": lambda a, b: torch._foreach_add(a, b, alpha=2),
    "mul": lambda a, b: torch._foreach_mul(a, [2.0, 3.0]),
    "addcdiv": lambda a, b: torch._foreach_addcdiv(a, b, torch._foreach_exp(a), value=0.5),
    "lerp": lambda a, b: torch._foreach_lerp(a, b, 0.3),
    "pow": lambda a, b: torch._foreach_sqrt(torch._foreach_pow(a, 2)),
    "clamp": lambda a, b: torch._foreach_clamp_min(a, 0.1),
    "powers of a number": lambda a, b: torch.ops.aten._foreach_pow.ScalarAndTensor(0.9, a),
    "copy": lambda a, b: torch.ops.aten._foreach_copy(a, b),
    "norm": lambda a, b: torch._foreach_norm(a),
    "max": lambda a, b: torch._foreach_max(b),
}


@pytest.mark.parametrize("name", FOREACH)
def test_lists_of_tensors(name):
    function = lambda *tensors: FOREACH[name](list(tensors[:2]), list(tensors[2:]))
    inputs = [torch.randn(3, 4), torch.randn(5), torch.randn(3, 4), torch.randn(5)]
    assert fallbacks(function, *inputs) == []
    check(function, *inputs)


def test_a_copy_into_a_view_is_no_fallback():
    assert fallbacks(lambda x: x[1].copy_(x[0] + 1), torch.randn(3, 4)) == []


@pytest.mark.parametrize("labels", [[0, 1, -1, 0], [3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3]])
def test_what_stands_behind_the_last_label_is_none(labels):
    """Torch's own decomposition counts it."""
    check(lambda x, target: F.multilabel_margin_loss(x, target), torch.randn(3, 4), torch.tensor([labels] * 3))
