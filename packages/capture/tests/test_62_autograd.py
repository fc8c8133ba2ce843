"""Autograd in the user's code: the same gradients, in the same places, as part of the graph."""

import contextlib
import copy
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import capture


def whole(function):
    return capture.optimize("eager", nopython=True, strict=True)(function)


@pytest.fixture
def w():
    return torch.arange(1.0, 4.0).requires_grad_()


def test_grad_with_respect_to_what_is_made_inside(x):
    def slope(x):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad((leaf**3).sum(), leaf)[0]

    assert torch.equal(whole(slope)(x), 3 * x**2)


def test_grad_of_grad(x, w):
    def second(x):
        (first,) = torch.autograd.grad(((x * w) ** 3).sum(), w, create_graph=True)
        return torch.autograd.grad(first.sum(), w)[0]

    assert torch.allclose(whole(second)(x), second(x))


def test_backward_sets_a_gradient_and_then_adds_to_it(x, w):
    def step(x, w):
        loss = (x * w).square().sum()
        loss.backward()
        return loss

    plain, captured = (w.detach().clone().requires_grad_() for _ in range(2))
    region = whole(step)
    for _ in range(3):
        assert torch.equal(step(x, plain), region(x, captured))
        assert torch.equal(plain.grad, captured.grad)
    kept = captured.grad
    region(x, captured)
    assert captured.grad is kept  # in place, as autograd does


def test_gradients_are_cleared_and_read(x, w):
    def step(x):
        w.grad = None
        (x * w).sum().backward()
        return w.grad * 2, w.grad is None

    result, missing = whole(step)(x)
    assert torch.equal(result, 2 * x.sum(0))
    assert not missing


def test_gradients_of_two_leaves_are_two_tensors():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    whole(lambda: (a + b).sum().backward())()
    a.grad.mul_(5)
    assert torch.equal(b.grad, torch.ones(3))


@pytest.mark.parametrize("shape", [(1,), (1, 3), (3, 1), (1, 1, 2)])
def test_a_gradient_lies_as_its_leaf_does_where_sizes_vary(shape):
    """Also along a dimension of size 1: torch compares those strides and warns."""

    def function(w, n):
        (w * torch.ones(n, *w.shape)).sum().backward()
        w.sum().backward(inputs=[w])

    def summed(w, n):
        w.sum().backward()
        return torch.ones(n)

    for program in (function, summed):
        w, region = torch.ones(shape, requires_grad=True), capture.optimize("eager")(program)
        for n in (2, 3, 4):
            w.grad = None
            region(w, n)
            assert w.grad.stride() == w.stride()


def test_a_loss_is_used_up(x, w):
    def step(x):
        loss = (x * w).square().sum()
        loss.backward()
        return loss

    loss = whole(step)(x)
    assert loss.requires_grad
    used = step(x)
    with pytest.raises(RuntimeError) as expected:
        used.backward()
    with pytest.raises(RuntimeError) as raised:
        loss.backward()
    assert str(raised.value) == str(expected.value)


def test_a_checkpoint_within_which_a_loss_is_used_up_runs_once(w):
    seen = []

    def step(w):
        loss = w.square().sum()
        loss.backward()
        return loss

    loss = whole(step)(w)
    with pytest.raises(RuntimeError, match="second time"):
        checkpoint(lambda _: (seen.append(1), loss.backward()), w, use_reentrant=False)
    assert seen == [1]


def test_a_loss_with_a_history_outside_is_left_to_cpython(check, x):
    outer = torch.ones(3, requires_grad=True)
    middle = outer * 2

    def step(x):
        (x * middle).sum().backward()
        return x + 1

    capture.optimize("eager", strict=True)(step)(x)
    assert torch.equal(outer.grad, 2 * x.sum(0))


def test_hooks_run(x, w):
    seen = []
    w.register_hook(lambda grad: seen.append(grad) or grad * 10)

    def step(x):
        (x * w).sum().backward()
        return x + 1

    capture.optimize("eager", strict=True)(step)(x)
    assert len(seen) == 1
    assert torch.equal(w.grad, 10 * x.sum(0))


class Exp(torch.autograd.Function):
    """Its backward is not the true one, so that nobody can replace it."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return (x * scale).exp()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * ctx.scale * 100, None


class Separate(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 7


class Counts(dict):
    pass


SEPARATE = Separate.apply


@pytest.mark.parametrize("read", [lambda: Separate.apply, lambda: SEPARATE, lambda: Counts.fromkeys])
def test_a_class_method_is_another_object_every_time_it_is_read(x, read):
    region = capture.optimize("eager", strict=True, recompile_limit=1)(lambda x: (x + 1, read()))
    for _ in range(3):
        assert region(x)[1] == read()


@pytest.mark.parametrize("function", [lambda w: Exp.apply(w, 2.0), Separate.apply], ids=["exp", "separate"])
def test_a_function_with_its_own_backward(function):
    plain, captured = (torch.arange(3.0).requires_grad_() for _ in range(2))
    expected, actual = function(plain) * 2, whole(lambda w: function(w) * 2)(captured)
    expected.sum().backward()
    actual.sum().backward()
    assert torch.equal(expected, actual)
    assert torch.equal(plain.grad, captured.grad)


CALLS = []


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        CALLS.append(1)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad


def test_a_forward_that_does_more_than_compute_runs_once_per_call(x):
    CALLS.clear()
    region = capture.optimize("eager", strict=True)(lambda x: Noisy.apply(x) + 1)
    for count in (1, 2, 3):
        assert torch.equal(region(x), x * 2 + 1)
        assert len(CALLS) == count


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.5, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01),
    "adamw, foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}
WHOLE = ("sgd", "momentum", "foreach")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    runs = []
    for captured in (False, True):
        copied = copy.deepcopy(model)
        optimizer = OPTIMIZERS[name](copied.parameters())

        def step(x, y, copied=copied, optimizer=optimizer):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(copied(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = capture.optimize("eager", nopython=name in WHOLE, strict=True)(step) if captured else step
        torch.manual_seed(1)
        losses = [run(torch.randn(5, 4), torch.randint(0, 3, (5,))).item() for _ in range(5)]
        runs.append((losses, [parameter.detach().clone() for parameter in copied.parameters()]))
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(one, other) for one, other in zip(runs[0][1], runs[1][1], strict=True))


def between(function):
    """The same with a break in the middle."""

    def broken(x, w):
        return function(x, w, capture.graph_break)

    return broken


def of_a_new_tensor(x, w, pause=lambda: None):
    noise = torch.ones(3, requires_grad=True)
    loss = (noise * x).sum()
    pause()
    loss.backward()
    return noise.grad


def of_a_changed_input(x, w, pause=lambda: None):
    attacked = x.clone().detach().requires_grad_()
    loss = (attacked * w).square().sum()
    pause()
    loss.backward()
    return attacked.grad, w.grad


def of_what_is_returned(x, w, pause=lambda: None):
    leaf = x.clone().requires_grad_()
    return leaf, leaf * w


@pytest.mark.parametrize("function", [of_a_new_tensor, of_a_changed_input, of_what_is_returned])
@pytest.mark.parametrize("broken", [False, True])
def test_gradients_taken_later_arrive_at_what_was_made_within(same, x, w, function, broken):
    ours, theirs = w.detach().clone().requires_grad_(), w
    found = capture.optimize("eager", strict=True)(between(function) if broken else function)(x, ours)
    expected = function(x, theirs)
    if function is of_what_is_returned:
        assert found[0].is_leaf
        for leaf, result in (found, expected):
            result.sum().backward()
        found, expected = (found[0].grad, ours.grad), (expected[0].grad, theirs.grad)
    same(expected, found)


def test_a_graph_goes_on_past_a_tensor_whose_gradient_nobody_can_ask_for(check, x, w):
    """As models do so that checkpoints of frozen layers have a history."""

    def forward(x, w):
        hidden = x * 2
        hidden.requires_grad = True
        return hidden.sin() * w

    check(forward, x, w)


AFTER_A_BACKWARD = {
    "detached in place": lambda h: h.detach_().requires_grad,
    "changed in place": lambda h: h.add_(1).tolist(),
    "a slice changed in place": lambda h: h[:1].add_(1).tolist(),
    "backward again": lambda h: h.sum().backward(),
    "asked": lambda h: (h.requires_grad, h.is_leaf, h._is_view(), h._version),
    "frozen": lambda h: h.requires_grad_(False),
}


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("use", AFTER_A_BACKWARD)
def test_what_a_backward_went_through_is_used_as_in_eager(x, w, viewed, use):
    def step(x):
        hidden = (w * x).exp()
        hidden = hidden[1:] if viewed else hidden
        hidden.square().sum().backward()
        return hidden

    def outcome(step):
        try:
            return AFTER_A_BACKWARD[use](step(x))
        except RuntimeError as error:
            return str(error)

    assert outcome(whole(step)) == outcome(step)


class Counting(torch.autograd.Function):
    """Its backward changes what it was given."""

    @staticmethod
    def forward(ctx, x, count):
        ctx.count = count
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        ctx.count[0] += 1
        return grad * 2, None


def counted_outside(x, count):
    count[0] = 5
    y = Counting.apply(x, count)
    y.sum().backward()
    return count[0], x.grad


def counted_inside(x, _):
    count = [0]
    y = Counting.apply(x, count)
    y.sum().backward()
    return count[0], x.grad


def counted_twice(x, count):
    Counting.apply(x, count).sum().backward()
    first, count[0] = count[0], 0
    Counting.apply(x, count).sum().backward()
    return first, count[0], x.grad


def counted_where_nobody_goes_back(x, count):
    count[0] = 7
    return Counting.apply(x, count).detach(), count[0]


@pytest.mark.parametrize("f", [counted_outside, counted_inside, counted_twice, counted_where_nobody_goes_back])
def test_what_a_backward_of_its_own_changes_changes_once(f):
    captured = capture.optimize("eager", strict=True)(f)
    for _ in range(3):
        x, same, count, counted = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), [0], [0]
        expected, found = f(x, count), captured(same, counted)
        assert [torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(expected, found)] == [
            True
        ] * len(expected)
        assert counted == count


READS_OF_GRADIENTS = {
    "of what is computed": lambda x: (x * 2).grad,
    "after its backward": lambda x: ((y := x * 2).sum().backward(), y.grad)[1],
    "of a view": lambda x: (x * 2)[0].grad,
    "asked for": lambda x: (hasattr(x * 2, "grad"), getattr(x * 2, "grad", 3)),
    "of a leaf": lambda x: x.detach().clone().requires_grad_().grad,
    "of a constant": lambda x: torch.ones(2).grad,
}


@pytest.mark.parametrize("name", READS_OF_GRADIENTS)
def test_who_reads_the_gradient_of_what_is_no_leaf_is_warned_at_each_call(name):
    def told(function):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = function(torch.ones(3, requires_grad=True))
        return result, [(str(each.message), each.filename, each.lineno) for each in said]

    captured = capture.optimize("eager")(READS_OF_GRADIENTS[name])
    for _ in range(2):
        assert told(captured) == told(READS_OF_GRADIENTS[name])


@pytest.mark.parametrize("within", [False, True])
def test_anomalies_are_looked_for_when_asked(within):
    """In a backward inside, also where the first calls asked for nothing."""

    def step(w, looks):
        with torch.autograd.set_detect_anomaly(looks) if within else contextlib.nullcontext():
            (w.sqrt() * 0).sum().backward()

    region = capture.optimize("eager")(step)
    for looks in (False, True, False, True):
        with warnings.catch_warnings(), torch.autograd.set_detect_anomaly(looks and not within):
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError, match="returned nan") if looks else contextlib.nullcontext():
                region(torch.zeros(2, requires_grad=True), looks)


def test_a_loss_that_went_backward_is_printed_as_in_eager():
    def play(weight):
        losses = (weight * 2).sum(), weight.exp().mean(), weight[0] * 3
        for loss in losses:
            loss.backward()
        return losses

    weight = torch.ones(2, requires_grad=True)
    captured = capture.optimize("eager", strict=True)(play)
    assert str(captured(weight)) == str(captured(weight)) == str(play(weight))


RESHAPED = {
    "unsqueezed": lambda grad: grad.unsqueeze_(0),
    "transposed": lambda grad: grad.t_(),
    "squeezed": lambda grad: grad.squeeze_(),
    "smaller": lambda grad: grad.resize_(1),
    "by strides": lambda grad: grad.as_strided_((2, 1), (1, 1)),
}
LEAVES = {
    "a number": lambda: torch.tensor(2.0),
    "a row": lambda: torch.ones(1, 2),
    "a column": lambda: torch.ones(2, 1),
}


@pytest.mark.parametrize("change", RESHAPED)
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_gradient_that_gets_another_shape_is_cpythons(leaf, change):
    """Where it is assigned, behind the graph, it would have to fit."""

    def program(w):
        (w * w).sum().backward()
        RESHAPED[change](w.grad)

    def outcome(call):
        w = LEAVES[leaf]().requires_grad_()
        with contextlib.suppress(RuntimeError):
            call(w)
        return w.grad.tolist(), w.grad.stride()

    assert outcome(capture.optimize("eager")(program)) == outcome(program)


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("related", [lambda x: x * 2, lambda x: x[:], lambda x: x.unbind()[0]])
def test_gradients_of_what_was_computed_from_each_other(related, unused):
    """Outside of the function, so that only autograd knows that the way to ``y`` leads on to ``x``."""

    def program(x, y):
        return torch.autograd.grad(y.pow(2).sum() + (0 if unused else x.sum()), [x, y], allow_unused=unused)

    captured = capture.optimize(lambda gm, inputs: gm.forward)(program)
    unrelated = torch.rand(3, requires_grad=True) * 1, torch.rand(3, requires_grad=True) * 1
    for x, y in (unrelated, *((x, related(x)) for x in [torch.rand(3, 3, requires_grad=True) * 1] * 2)):
        again = (lambda x, y: (x, y))(x, y)
        expected = torch.autograd.grad(
            y.pow(2).sum() + (0 if unused else x.sum()), [x, y], allow_unused=unused, retain_graph=True
        )
        for found, wanted in zip(captured(*again), expected, strict=True):
            assert (found is None) == (wanted is None)
            assert found is None or torch.equal(found, wanted)
