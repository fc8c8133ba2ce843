"""What training code does beside calling forward and backward once."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad


def compiled(fn, **options):
    return aotgrad.function(fn, forward=aotgrad.run_eagerly, **options)


def test_dropout_takes_the_same_mask_as_eager_and_uses_it_in_backward(same_as_eager):
    same_as_eager(lambda x: F.dropout(x, 0.5) * x, torch.randn(50, requires_grad=True))


def test_a_random_draw_that_nobody_reads_still_moves_the_stream():
    def program(x):
        torch.rand(3)
        return x + torch.rand(3)

    torch.manual_seed(0)
    ours = compiled(program)(torch.zeros(3))
    torch.manual_seed(0)
    torch.testing.assert_close(ours, program(torch.zeros(3)))


def test_autocast_inside(same_as_eager):
    def program(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        return y.float().sum() + (x @ w).sum()

    same_as_eager(program, torch.randn(4, 4), torch.randn(4, 4, requires_grad=True))


def test_autocast_outside():
    program = lambda x, w: x @ w
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    fn = compiled(program)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = fn(x, w)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert w.grad.dtype == torch.float32
    assert fn(x, w).dtype == torch.float32


def batch_norm(x, w):
    return F.batch_norm(x @ w, None, None, training=True)


LAYERS = {
    "linear": F.linear,
    "prelu": lambda x, w: F.prelu(F.linear(x, w), w[0, 0].reshape(1)),
    "layer_norm": lambda x, w: F.layer_norm(x @ w, (4,), w[0], w[1]),
    "softmax": lambda x, w: torch.softmax(x @ w, -1),
    "attention": lambda x, w: F.scaled_dot_product_attention((x @ w)[None], x[None], (x + 1)[None] @ w)[0],
    "batch_norm": batch_norm,
}


@pytest.mark.parametrize("forward_casts", [False, True])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_backward_within_autocast(layer, again, forward_casts):
    def program(x, w):
        run = lambda x: LAYERS[layer](LAYERS[layer](x, w).float(), w)
        return checkpoint(run, x, use_reentrant=False) if again else run(x)

    def gradients(fn):
        torch.manual_seed(0)
        x, w = torch.randn(5, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        with torch.autocast("cpu", enabled=forward_casts):
            y = fn(x, w)
        with torch.autocast("cpu"):
            return torch.autograd.grad(y.float().sigmoid().mean(), (x, w))

    torch.testing.assert_close(gradients(compiled(program)), gradients(program), rtol=0.05, atol=0.02)


def test_no_grad_inside(same_as_eager):
    def program(x):
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale

    same_as_eager(program, torch.randn(5, requires_grad=True))


def test_an_autograd_function_inside(same_as_eager):
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x.abs() < 1)

    same_as_eager(lambda x: Clipped.apply(x * 2), torch.randn(9, requires_grad=True))


def test_hooks_on_tensors_inside(same_as_eager):
    def program(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 10)
        return y.sin()

    same_as_eager(program, torch.randn(4, requires_grad=True))


def test_hooks_on_parameters_outside():
    w = torch.ones(3, requires_grad=True)
    seen = []
    w.register_hook(seen.append)
    compiled(lambda w: w * 3)(w).sum().backward()
    torch.testing.assert_close(seen, [torch.full((3,), 3.0)])


def test_retain_graph_and_accumulation():
    w = torch.ones(3, requires_grad=True)
    y = compiled(lambda w: w.exp() * w)(w)
    y.sum().backward(retain_graph=True)
    once = w.grad.clone()
    y.sum().backward()
    torch.testing.assert_close(w.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_an_unused_output_leaves_its_parameters_without_gradient():
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))
    first, _ = compiled(lambda a, b: (a.sin(), b.sin()))(a, b)
    first.sum().backward()
    assert a.grad is not None
    assert b.grad is None


def test_an_unused_output_counts_as_zero_where_gradients_meet(same_as_eager):
    def program(x):
        return x.sin(), x.cos()

    x = torch.randn(3, requires_grad=True)
    first, _ = compiled(program)(x)
    (grad,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(grad, x.cos())


def test_integer_outputs_are_not_differentiable(same_as_eager):
    same_as_eager(lambda x: (x.argmax(), x.topk(2), x > 0), torch.randn(5, requires_grad=True))


def test_a_tangent_in_another_layout():
    program = lambda x: (x * x).view(2, 6) * 2
    x = torch.randn(3, 4, requires_grad=True)
    weights = torch.randn(6, 2).t()
    ours = torch.autograd.grad(compiled(program)(x), x, weights)
    torch.testing.assert_close(ours, torch.autograd.grad(program(x), x, weights))


def test_channels_last(same_as_eager):
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    same_as_eager(lambda x, w: F.conv2d(x, w).relu(), x, torch.randn(5, 3, 1, 1, requires_grad=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision(same_as_eager, dtype):
    same_as_eager(lambda x: torch.softmax(x * x, 0).sum(), torch.randn(7).to(dtype).requires_grad_())


def test_several_losses():
    a = torch.ones(3, requires_grad=True)
    one, two = compiled(lambda a: (a.sin().sum(), a.exp().sum()))(a)
    one.backward(retain_graph=True)
    two.backward()
    torch.testing.assert_close(a.grad, a.cos() + a.exp())


def test_complex_numbers(same_as_eager):
    same_as_eager(lambda x: (x * x.conj()).real, torch.randn(3, dtype=torch.complex64, requires_grad=True))
    same_as_eager(lambda x: torch.view_as_real(x.conj() * 2), torch.randn(3, dtype=torch.complex64))


def test_a_program_that_fails_is_left_to_eager():
    with pytest.raises(RuntimeError, match=r"^The size of tensor a \(4\) must match the size of tensor b \(3\)"):
        compiled(lambda x: x + torch.ones(3))(torch.ones(4))
    assert torch.ones(1).add(1).item() == 2
    assert torch.is_grad_enabled()


def test_functions_that_take_and_return_nothing_special():
    assert compiled(lambda: 3)() == 3
    torch.testing.assert_close(compiled(lambda: torch.arange(3) * 2)(), torch.arange(3) * 2)
    assert compiled(lambda x: None)(torch.ones(2, requires_grad=True)) is None


def test_a_refusal_names_the_users_line():
    gm = torch.fx.symbolic_trace(lambda x: x.resize_(9).sin().item())
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = 'File "model.py", line 12, in forward\n    x.item()'
    with pytest.raises(aotgrad.Unsupported, match=r"at model\.py:12; ") as caught:
        aotgrad.compile(gm, [torch.ones(3)], forward=aotgrad.run_eagerly)
    assert caught.value.where == "model.py:12"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_with_fixed_statistics(dtype, affine):
    norm = torch.nn.BatchNorm2d(4, affine=affine).eval().to(dtype)
    norm.running_mean.copy_(torch.randn(4))
    norm.running_var.copy_(torch.rand(4) + 0.5)
    x, twin = (torch.randn(2, 4, 3, 3, dtype=dtype, generator=_seeded()).requires_grad_() for _ in range(2))
    found, expected = aotgrad.module(norm, forward=aotgrad.run_eagerly)(x), norm(twin)
    torch.testing.assert_close(found, expected)
    (mine,), (theirs,) = (torch.autograd.grad(y.square().sum(), i) for y, i in ((found, x), (expected, twin)))
    torch.testing.assert_close(mine, theirs)


def _seeded():
    return torch.Generator().manual_seed(0)


def test_a_program_that_takes_its_own_gradients_gives_plain_tensors():
    def slope(x, w):
        return torch.autograd.grad((x * w).sin().sum(), w)[0]

    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    found = aotgrad.function(slope, forward=aotgrad.run_eagerly)(x, w)
    assert not found.requires_grad
    torch.testing.assert_close(found, slope(x, w))


def test_what_an_unused_output_would_need_is_not_computed():
    seen = []

    def compiler(gm, example_inputs):
        seen.append([node.target for node in gm.graph.nodes])
        return aotgrad.run_eagerly(gm, example_inputs)

    def program(x, w):
        logits = x @ w
        return logits, torch.softmax(logits, 0).sum(), w.exp().sum()

    x, w = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
    for used in ([1], [0], [0, 2], [1, 2], [0, 1, 2]):
        seen.clear()
        outputs, expected = aotgrad.function(program, forward=compiler)(x, w), program(x, w)
        ours = torch.autograd.grad(sum(outputs[i].sum() for i in used), w)
        torch.testing.assert_close(ours, torch.autograd.grad(sum(expected[i].sum() for i in used), w))
        assert any(torch.ops.aten._softmax_backward_data.default in each for each in seen) == (1 in used)


def test_an_absent_tangent_is_zero_where_no_sum_takes_it(same_as_eager):
    program = lambda x: (x[:2].exp(), x[2:].sin())
    x = torch.randn(5, requires_grad=True)
    first, _ = compiled(lambda x: tuple(torch.cat([a * 2, b * 3]) for a, b in [program(x)]) + program(x))(x)[1:]
    torch.testing.assert_close(torch.autograd.grad(first.sum(), x), torch.autograd.grad(program(x)[0].sum(), x))


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * 2, b * 3

    @staticmethod
    def backward(ctx, first, second):
        return (None if first is None else first * 2), (None if second is None else second * 3)


class UnmaterializedPair(Pair):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        return a * 2, b * 3


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_function_is_given_zeros_for_results_that_nobody_used(used, dynamic):
    program = lambda a, b: (lambda one, other: (one.sin(), other + 1))(*Pair.apply(a, b * 2))
    gradients = []
    for run in (program, aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=dynamic)):
        a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        run(a, b)[used].sum().backward()
        gradients.append((a.grad, b.grad))
    assert [grad is None for grad in gradients[1]] == [grad is None for grad in gradients[0]]
    torch.testing.assert_close([g for g in gradients[1] if g is not None], [g for g in gradients[0] if g is not None])


def test_a_function_that_is_told_what_nobody_used_is_refused_where_that_varies():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    with pytest.raises(aotgrad.Unsupported, match="is told which of its results were not used"):
        aotgrad.function(lambda a, b: UnmaterializedPair.apply(a, b), forward=aotgrad.run_eagerly)(a, b)


@pytest.mark.parametrize("chosen", [lambda one, other: one, lambda one, other: one + other])
def test_a_function_that_is_told_what_nobody_used_where_that_is_fixed(chosen):
    program = lambda a, b: chosen(*UnmaterializedPair.apply(a, b)).sin()
    gradients = []
    for run in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        run(a, b).sum().backward()
        gradients.append((a.grad, b.grad))
    assert [grad is None for grad in gradients[1]] == [grad is None for grad in gradients[0]]
    torch.testing.assert_close([g for g in gradients[1] if g is not None], [g for g in gradients[0] if g is not None])


@pytest.mark.parametrize("program", [lambda x: x.sin(), lambda x: (x.sin(), x.cos())], ids=["one", "two"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_no_gradient_arrives_at_all(program, create_graph):
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *values):
            return sum(values)

        @staticmethod
        def backward(ctx, grad):
            return (None,) * len(ctx.needs_input_grad)

    x = torch.ones(3, requires_grad=True)
    results = compiled(program)(x)
    used = Nothing.apply(*(results if isinstance(results, tuple) else [results]))
    assert torch.autograd.grad(used.sum(), x, allow_unused=True, create_graph=create_graph) == (None,)


def test_a_result_whose_gradient_is_zero_still_requires_it():
    """The number of values that are not zero has a gradient in eager, and it is zero."""
    x = torch.ones(3, requires_grad=True)
    assert compiled(lambda x: torch.linalg.vector_norm(x, 0))(x).requires_grad


class Gone(torch.autograd.Function):
    """Has a history and no gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return None


@pytest.mark.parametrize("program", [Gone.apply, lambda x: Gone.apply(x.sin()).cos(), lambda x: Gone.apply(x) + x])
def test_a_gradient_that_a_function_keeps_to_itself(program):
    found = []
    for function in (compiled(program), program):
        x = torch.arange(3.0).requires_grad_()
        result = function(x)
        assert result.requires_grad
        result.sum().backward()
        found.append(x.grad)
    assert str(found[0]) == str(found[1])


class Marked(torch.autograd.Function):
    """Changes its input, says so, and has a backward that no operator has."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x.exp() * factor, x.argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0])
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, grad, _):
        return grad * ctx.saved_tensors[0] * 10, None


def test_autograd_functions_of_every_style(same_as_eager):
    x = torch.randn(4, requires_grad=True)
    same_as_eager(lambda x: Marked.apply(x * 1).sin(), x)
    same_as_eager(lambda x: WithSetup.apply(x, 3.0), x)


def test_hooks_of_modules_and_accumulated_gradients():
    module, seen = torch.nn.Linear(3, 2), []
    module.register_full_backward_hook(lambda *_: seen.append("module"))
    module.weight.register_hook(lambda grad: grad * 2)
    module.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    x, grads = torch.randn(5, 3, requires_grad=True), []
    for call in (aotgrad.module(module, forward=aotgrad.run_eagerly), module):
        module.zero_grad()
        for _ in range(2):
            call(x).sum().backward()
        grads.append((module.weight.grad, module.bias.grad))
    torch.testing.assert_close(*grads)
    assert sum(isinstance(each, torch.Tensor) for each in seen) == 4


def test_a_module_called_by_several_threads():
    module, failures = torch.nn.Linear(4, 4), []
    twin = copy.deepcopy(module)  # the module itself has other tensors while it is traced
    call = aotgrad.module(module, forward=aotgrad.run_eagerly)

    def work(rows):
        for _ in range(3):
            x = torch.randn(rows, 4)
            if not torch.allclose(call(x), twin(x), atol=1e-6):
                failures.append(rows)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(1, 7)))
    assert not failures


def test_a_deep_copy_has_parameters_of_its_own():
    call = aotgrad.module(torch.nn.Linear(2, 2), forward=aotgrad.run_eagerly)
    twin, x = copy.deepcopy(call), torch.ones(2)
    with torch.no_grad():
        twin.module.weight.zero_()
        twin.module.bias.zero_()
    assert call(x).any()
    assert not twin(x).any()


def step_by_step(x, w):
    hidden = x @ w
    logits = hidden.tanh() * 2
    return hidden, logits.transpose(0, 1), logits.square().sum() + w.sum()


def between(x, w, use, run):
    hidden, logits, loss = run(x, w)
    return use(hidden, logits, loss), w.grad


def with_hooks(hidden, logits, loss):
    hidden.register_hook(lambda grad: grad * 10)
    loss.backward()


def with_kept_gradients(hidden, logits, loss):
    hidden.retain_grad()
    loss.backward()
    return hidden.grad


def with_respect_to_a_result(hidden, logits, loss):
    return torch.autograd.grad(loss, hidden)


def one_after_another(hidden, logits, loss):
    loss.backward(retain_graph=True)
    (hidden.sum() * 3).backward(retain_graph=True)
    logits.sum().backward()


def with_a_graph_of_them(hidden, logits, loss):
    (first,) = torch.autograd.grad(loss, hidden, create_graph=True)
    (first.square().sum() + hidden.sum()).backward()


USES = [with_hooks, with_kept_gradients, with_respect_to_a_result, one_after_another, with_a_graph_of_them]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_results_that_others_come_from_are_passed_on_the_way(use, dynamic):
    found = []
    for run in (step_by_step, aotgrad.function(step_by_step, forward=aotgrad.run_eagerly, dynamic=dynamic)):
        torch.manual_seed(0)
        x, w = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
        found.append(between(x, w, use, run))
    torch.testing.assert_close(found[1], found[0])


def test_results_that_others_come_from_may_be_changed_in_place():
    for run in (step_by_step, aotgrad.function(step_by_step, forward=aotgrad.run_eagerly)):
        x, w = torch.ones(4, 3), torch.ones(3, 5, requires_grad=True)
        hidden, logits, _ = run(x, w)
        (logits.add_(1).sum() + hidden.mul(2).sum()).backward()
        assert w.grad.shape == w.shape


def test_a_second_derivative_through_what_was_drawn_below():
    def program(x, w):
        hidden = torch.dropout(x @ w, 0.5, True)
        return hidden, hidden.tanh().square().sum()

    found = []
    for run in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        torch.manual_seed(0)
        x, w = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
        _, loss = run(x, w)
        (slope,) = torch.autograd.grad(loss, w, create_graph=True)
        found.append((slope.detach(), *torch.autograd.grad(slope.square().sum(), w)))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("compare", ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"])
def test_a_gradient_that_depends_on_no_tangent_is_there(compare):
    """Whichever of the results is used: comparing in place has the gradient zero."""
    x = torch.randn(3, requires_grad=True)

    def program(x):
        z = getattr(x.clone(), compare)(torch.tensor(1.0))
        return z, (z * 2).sum()

    for used in (0, 1):
        x.grad = None
        aotgrad.function(program, forward=aotgrad.run_eagerly)(x)[used].sum().backward()
        assert torch.equal(x.grad, torch.zeros(3))


def test_where_autograd_looks_for_nan_a_graph_is_traced_and_its_gradient_looked_at():
    def program(x):
        return (x * 0).sqrt().sum()

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        loss = aotgrad.function(program, forward=aotgrad.run_eagerly)(x)
        with pytest.warns(UserWarning, match="Error detected in CompiledBackward"):
            with pytest.raises(RuntimeError, match="returned nan values"):
                loss.backward()
