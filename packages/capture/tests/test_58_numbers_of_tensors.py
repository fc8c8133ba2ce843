"""Numbers read out of tensors, and floats that vary: the graph goes on as long as nothing in Python depends on them."""

import itertools

import pytest
import torch

import capture

WHOLE = {
    "returned": lambda a: (a * 2, a.sum().item()),
    "a divisor": lambda a: a / a.max().item(),
    "a factor on the left": lambda a: a.max().item() * a - 1,
    "of a comparison": lambda a: a > a.mean().item(),
    "computed with": lambda a: a + (a.sum().item() * 2 - 1) / 3,
    "counted": lambda a: (a * (a > 2).sum().item(), (a > 2).sum().item() + 1),
    "of every kind": lambda a: [
        part.item() for part in (a.bool().any(), a.int()[0, 1], a.half()[1, 1], a.bfloat16()[0, 2], a.double()[1, 2])
    ],
    "of integers": lambda a: a.long() * a.long()[1, 2].item(),
    "by float()": lambda a: (float(a.sum()), float(a.long().sum()) + 0.5),
    "by int()": lambda a: int(a.long().sum()) * 2,
    "a list": lambda a: (a.tolist(), a[0].long().tolist()),
    "what others are divided by": lambda a: (1 / a.max().item(), a * (a.sum().item() / a[1, 1].item())),
    "compared later": lambda a: a.sum().item() == a.sum().item(),
    "a size": lambda a: a.reshape(-1)[: int((a > 2).sum().item())],
    "negative": lambda a: (-a.sum().item(), abs(a.min().item()), a * -a.max().item()),
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_graph_stays_whole(check, x, name):
    check(WHOLE[name], x)


def test_a_sum_over_a_loop(check, x):
    def train(a):
        total = 0.0
        for _ in range(5):
            a = a * 1.5
            total += a.sum().item()
        return a, total / 5

    check(train, x)


def test_the_number_is_that_of_its_moment(check, x):
    def change(a):
        before = a[0, 1].item()
        a.add_(1)
        return before, a * before

    check(change, x)


def test_a_whole_training_step_with_its_loss(check, x):
    def step(a):
        loss = (a * a).sum()
        loss.backward()
        return loss.item(), float(a.grad.norm())

    check(step, x.requires_grad_())


BROKEN = {
    "a branch": (2, lambda a: a + 1 if a.mean().item() > 1 else a - 1),
    "a key": (1, lambda a: {a.sum().item(): 1, 15.0: a}),
    "membership": (2, lambda a: (a.sum().item() in [15.0], a + 1)),
    "text": (2, lambda a: (f"{a.mean().item():.2f}", a + 1)),
    "a power, whose rounding is another": (1, lambda a: a ** a.max().item()),
    "half precision, which eager multiplies by more digits": (1, lambda a: a.half() * a.max().item()),
    "rounding, which fails for infinity": (2, lambda a: a * int(a.max().item())),
    "a complex number": (1, lambda a: a.to(torch.complex64)[0, 0].item()),
}
"""The number of graphs on both sides of the one break, and the function."""


@pytest.mark.parametrize("name", BROKEN)
def test_where_python_or_another_rounding_depends_on_it_the_graph_breaks(check, x, name):
    graphs, function = BROKEN[name]
    check(function, x, graphs=graphs, breaks=1)


def test_a_division_by_zero_raises_out_of_the_graph(check, x):
    check(lambda a: 1 / a[0, 0].item(), x)


def test_more_than_one_number_is_refused_without_a_graph(check, x):
    check(lambda a: a.item(), x, graphs=0)


def test_a_float_that_varies_is_compiled_twice(same, x):
    def scale(a, factor):
        return a * factor + factor, factor * 2

    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(scale)
    for factor in (0.5, 0.25, 1.75, -3.0, 1e30):
        same(scale(x, factor), region(x, factor))
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2


def test_a_divisor_that_varies(same, x):
    log = capture.Log()
    unscale = lambda a, scale: (a * (1.0 / scale), 1.0 / scale)
    region = capture.optimize("eager", strict=True, log=log)(unscale)
    for scale in (1024.0, 512.0, 0.3, -7.0, 1e-30):
        same(unscale(x, scale), region(x, scale))
    with pytest.raises(ZeroDivisionError):
        region(x, 0.0)
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2


@pytest.mark.parametrize("count", [2, 5, 0])
def test_an_average_whose_count_varies(count):
    average = lambda a, n: (a * 2, a.sum().item() / n)
    region = capture.optimize("eager", strict=True)(average)
    for n in (3, 4, 6, 9):
        assert region(torch.ones(2), n)[1] == 2 / n
    if count:
        assert region(torch.ones(2), count)[1] == 2 / count
    else:
        with pytest.raises(ZeroDivisionError):
            region(torch.ones(2), 0)


def test_the_settings_turn_it_off(same, x):
    log = capture.Log()
    options = capture.Options(capture_scalar_outputs=False, specialize_float=True, specialize_int=True)
    region = capture.optimize("eager", options=options, log=log)(lambda a, n: a * a.max().item() * n)
    for n in (2.0, 3.0, 2, 3):
        same(x * 5.0 * n, region(x, n))
    kinds = [type(record).__name__ for record in log.records()]
    assert kinds.count("BreakRecord") == 1
    assert kinds.count("RecompileRecord") >= 3


def positives(a):
    return (a > 2).sum().item()


AS_SIZES = {
    "a size": lambda a: torch.zeros(positives(a) + 1, 3) + 1,
    "a size of a tensor made like another": lambda a: a.new_full((positives(a), 2), 1.5) * a.sum(),
    "the end of a range": lambda a: torch.arange(positives(a)) * 2,
    "a mask of lengths": lambda a: torch.arange(int(a.long().max()))[None] < a.long()[0][:, None],
    "the end of a slice": lambda a: a.flatten()[: positives(a)] * 2,
    "both ends": lambda a: a.flatten()[positives(a) - 2 : positives(a)] * 2,
    "from the end": lambda a: (a.flatten()[-positives(a) :], a.flatten()[: -positives(a)]),
    "a position": lambda a: a[a.sum(1).argmax().item()] * 2,
    "a position from the end": lambda a: a[-int(a.long()[0, 1])] * 2,
    "positions of a list": lambda a: [a[0][i] for i in torch.tensor([2, 0]).tolist()],
    "an argument": lambda a: a.roll(positives(a)).repeat(positives(a), 1),
    "the value of an operator": lambda a: (a.clamp(max=positives(a)), a.long() % (positives(a) + 1)),
    "of narrow numbers": lambda a: (a.int() * positives(a), a.half() * positives(a)),
    "half of it": lambda a: a.flatten()[: positives(a) // 2] + positives(a) % 2,
    "at most": lambda a: a.flatten()[: min(positives(a), 2)] + a.flatten()[: max(2, positives(a))].sum(),
    "and a number too": lambda a: (torch.zeros(n := positives(a)), n, n + 1),
}


@pytest.mark.parametrize("name", AS_SIZES)
def test_a_whole_number_is_taken_as_a_size(check, x, name):
    check(AS_SIZES[name], x)


def test_one_graph_serves_every_number(same, x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(AS_SIZES["the end of a slice"])
    for limit in range(6):
        same(AS_SIZES["the end of a slice"](x - limit), region(x - limit))
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 1


def test_a_negative_size_is_the_users_error(x):
    def missing(a):
        return torch.zeros(int(a.long().sum()) - 100)

    with pytest.raises(RuntimeError, match="negative"):
        missing(x)
    with pytest.raises(RuntimeError, match="negative"):
        capture.optimize(lambda gm, examples: lambda *inputs: (torch.zeros(0), -85))(missing)(x)


def test_a_size_that_has_to_equal_another_ends_the_graph(check, x):
    check(lambda a: torch.zeros(positives(a)) + torch.ones(positives(a)), x, breaks=1)


def test_a_factor_of_a_number_that_is_added():
    function = lambda x, k: x.add(1, alpha=k.item())
    captured = capture.optimize("eager", strict=True)(function)
    for k in (0.5, 1.5, 2.0):
        assert torch.equal(captured(torch.ones(3), torch.tensor(k)), function(torch.ones(3), torch.tensor(k)))


@pytest.mark.parametrize("kind", [bool, int, float, complex])
@pytest.mark.parametrize("function", [
    lambda x, kind: x.to(kind),
    lambda x, kind: x.to("cpu", dtype=kind).sum(),
    lambda x, kind: torch.zeros(2, dtype=kind) + torch.tensor([1, 0], dtype=kind),
    lambda x, kind: x.sum(0, dtype=kind),
], ids=range(4))  # fmt: skip
def test_types_of_pythons_name_dtypes(function, kind, check, x):
    check(lambda x: function(x, kind), x)


FACTORS = {
    "add": lambda x, y, t: torch.add(x, y, alpha=t),
    "sub": lambda x, y, t: x.sub(y, alpha=t),
    "addcmul": lambda x, y, t: torch.addcmul(x, y, y, value=t),
    "addcdiv": lambda x, y, t: torch.addcdiv(x, y, y + 1, value=t),
    "a list": lambda x, y, t: torch._foreach_add([x, y], [y, x], alpha=t),
    "in place": lambda x, y, t: x.clone().add_(y, alpha=t),
}


@pytest.mark.without_graphs(
    "eager refuses to add integers times a number with a fraction",
    cases=[f"{name}-kinds15" for name in ("add", "sub", "a list")],
)
@pytest.mark.parametrize(
    "kinds", [*itertools.product((torch.float16, torch.bfloat16, torch.float32, torch.int32), repeat=2)]
)
@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_has_no_say_in_the_type_of_a_result(name, kinds):
    captured = capture.optimize("eager", strict=True)(FACTORS[name])
    for other in (torch.full((3,), 2), torch.tensor(2)):
        for factor in (0.5, 0.25, 3.5):
            x, y = torch.ones(3, dtype=kinds[0]), other.to(kinds[1])
            assert outcome(captured, x, y, factor) == outcome(FACTORS[name], x, y, factor)


def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:  # noqa: BLE001 - as eager has it
        return type(error), str(error)


@pytest.mark.parametrize("function", [
    lambda x, t: x.masked_fill(x > 0, t),
    lambda x, t: torch.where(x > 0, x, t) + torch.where(x > 0, -t, x),
    lambda x, t: x.clamp(-t, t) + x.clamp(max=t) + torch.clamp_min(x, t),
    lambda x, t: torch.full((3,), t) * x + x.new_full((3,), t) + torch.full_like(x, t),
    lambda x, t: x.clone().fill_(t),
    lambda x, t: torch.nn.functional.threshold(x, t, t) + torch.nn.functional.leaky_relu(x, t),
    lambda x, t: torch.linspace(0, t, 3) * x,
    lambda x, t: torch.tensor(t) * x + torch.tensor([t, 1.0]).sum(),
    lambda x, t: x.bfloat16().clamp(max=t),
], ids=range(9))  # fmt: skip
def test_floats_that_vary_fill_choose_and_limit(function, same):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(function)
    no_number = [float("nan")] if torch.__version__ > "2.12" else []  # 2.11's clamp heeds it in a tensor only
    for t in (0.5, 0.7, 1.0, 0.1, -3.3, float("inf"), *no_number):
        x = torch.tensor([-0.6, 0.3, 1.7])
        assert captured(x, t).dtype == function(x, t).dtype
        torch.testing.assert_close(captured(x, t), function(x, t), rtol=0, atol=0, equal_nan=True)
    kinds = [type(record) for record in log.records()]
    assert (kinds.count(capture.GraphRecord), kinds.count(capture.BreakRecord)) == (2, 0)
