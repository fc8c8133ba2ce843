"""Sizes and ints that vary become symbols of one graph."""

import math
import operator
import re
import types

import pytest
import torch

import capture


def graphs_for(function, calls, **options):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    region = capture.optimize(backend, strict=True, **options)(function)
    for args in calls:
        assert torch.equal(region(*args), function(*args))
    return graphs


def test_thirty_lengths_compile_twice():
    function = lambda x: x.reshape(-1) * x.shape[1] + x.sum()
    assert len(graphs_for(function, [(torch.randn(4, n),) for n in range(2, 32)])) == 2


def test_ints_that_vary():
    function = lambda x, n: x[:, :n] + n
    assert len(graphs_for(function, [(torch.randn(4, 40), n) for n in range(2, 32)])) == 2


def test_an_attribute_that_varies_is_one_symbol_however_often_it_is_read():
    function = lambda x, held: x * held.n + held.n if held.n != 4 else x
    calls = [(torch.ones(3), types.SimpleNamespace(n=n)) for n in (2, 3, 5, 6, 4)]
    graphs = graphs_for(function, calls)
    assert len(graphs) == 2


def test_ints_of_either_sign():
    function = lambda x, n: x * n if n > 0 else x + n
    assert len(graphs_for(function, [(torch.ones(3), n) for n in (5, 7, -2, -3, 9, 0, 1)])) <= 5


def test_zero_and_one_are_special():
    function = lambda x: x.squeeze(0) if x.shape[0] == 1 else x * x.shape[0]
    assert len(graphs_for(function, [(torch.randn(n, 3),) for n in (4, 5, 6, 1, 7, 1)])) == 3


def test_branches_on_sizes_are_conditions():
    function = lambda x: x + 1 if x.shape[0] > 10 else x - 1
    graphs = graphs_for(function, [(torch.randn(n),) for n in (3, 4, 5, 20, 30, 6)])
    assert len(graphs) == 3


def test_static_on_request():
    assert len(graphs_for(lambda x: x + 1, [(torch.randn(n),) for n in (3, 4, 5)], dynamic=False)) == 3


def test_dynamic_on_request():
    assert len(graphs_for(lambda x: x + 1, [(torch.randn(n),) for n in (3, 4, 5)], dynamic=True)) == 1


def test_sizes_go_to_the_backend_as_symints():
    inputs = []

    def backend(gm, example_inputs):
        inputs.append(example_inputs)
        return gm.forward

    region = capture.optimize(backend, strict=True)(lambda x, n: x * n)
    region(torch.randn(3), 2)
    region(torch.randn(3), 5)
    region(torch.randn(3), 7)
    assert len(inputs) == 2
    assert any(isinstance(item, torch.SymInt) for item in inputs[1])


@pytest.mark.parametrize("function", [
    lambda x: x.view(x.size(0), -1).mean(1),
    lambda x: torch.cat([x, x]).chunk(2)[0],
    lambda x: torch.zeros(x.shape[0], 2) + x[:, :2],
    lambda x: x.flatten()[: x.numel() // 2],
    lambda x: torch.arange(len(x)) + x.sum().long(),
])  # fmt: skip
def test_programs_over_sizes(function):
    torch.manual_seed(0)
    assert len(graphs_for(function, [(torch.randn(n, 4),) for n in (3, 5, 8, 9)])) == 2


def test_everything_that_varies_together_is_learnt_at_once(same):
    """A cache of keys and values: one tensor for each layer, all a step longer in each call."""

    def attend(query, keys):
        return sum((query @ key.T).softmax(-1).sum() for key in keys)

    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(attend)
    for length in range(5, 30):
        given = torch.randn(1, 4), [torch.randn(length, 4) for _ in range(12)]
        same(attend(*given), region(*given))
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2


def test_gradients_of_tensors_whose_sizes_vary():
    def f(parameter):
        return parameter.detach() - parameter.grad * 0.1

    log = capture.Log()
    compiled = capture.optimize("eager", strict=True, log=log)(f)
    for size in (3, 5, 7, 2):
        parameter = torch.nn.Parameter(torch.randn(size, 2))
        parameter.grad = torch.randn(size, 2)
        torch.testing.assert_close(compiled(parameter), f(parameter))
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2


class Counter:
    def __init__(self):
        self.count = 3
        self.buffer = torch.ones(3)


def test_what_is_found_through_a_closure_may_vary():
    counter = Counter()

    def f(x):
        counter.count += 1
        return x * counter.count + counter.buffer.sum() * counter.buffer.shape[0]

    log = capture.Log()
    compiled = capture.optimize("eager", strict=True, log=log)(f)
    for size in range(3, 12):
        counter.buffer = torch.ones(size)
        count = counter.count
        torch.testing.assert_close(compiled(torch.ones(2)), torch.ones(2) * (count + 1) + size * size)
        assert counter.count == count + 1
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2


@pytest.mark.parametrize("function", [
    lambda x: x * (1 / math.sqrt(x.shape[0])),
    lambda x: x / math.log(x.shape[0]) + math.cos(x.shape[0]),
    lambda x: x[: math.ceil(x.shape[0] / 2)] * math.floor(x.shape[0] * 0.3),
    lambda x: x[: int(x.shape[0] * 0.75)] * round(x.shape[0] / 3),
    lambda x: x * (0.9 * (1 - math.exp(-x.shape[0] / 3))),
    lambda x: (x.sum().item() / x.shape[0]) * x,
], ids=range(6))  # fmt: skip
def test_functions_of_sizes(function):
    assert len(graphs_for(function, [(torch.randn(n, 4),) for n in (3, 5, 8, 9, 17)])) == 2


@pytest.mark.parametrize("function", [
    lambda x: x + len(f"{math.sqrt(x.shape[0]):.3f}"),
    lambda x: x * 2 if math.sqrt(x.shape[0]) < 2 else x,
    lambda x: x.bfloat16() * math.sqrt(x.shape[0]),
    lambda x: x * math.floor(math.sqrt(x.shape[0])),
    lambda x: x.clamp(max=math.sqrt(x.shape[0]) / 10),
    lambda x: x / (math.sqrt(x.shape[0]) - 1),
    lambda x: torch.full((3,), math.sqrt(x.shape[0])) + x.sum(),
], ids=range(7))  # fmt: skip
def test_functions_of_sizes_where_the_number_itself_is_needed(function):
    graphs_for(function, [(torch.rand(n, 4),) for n in (3, 5, 8)])


@pytest.mark.parametrize("how", [{"scale_factor": 2}, {"size": 7}, {"scale_factor": 0.5, "mode": "linear"}])
def test_interpolation_between_sizes_that_vary(how):
    resized = lambda x: torch.nn.functional.interpolate(x[None], **how)
    assert len(graphs_for(resized, [(torch.rand(3, n),) for n in (4, 6, 8, 9, 20)])) == 2


def test_interpolation_to_a_size_that_varies():
    def resized(x, y):
        return torch.nn.functional.interpolate(x, size=y.shape[-2:], mode="bilinear") + y

    given = [(torch.rand(1, 2, n, n), torch.rand(1, 2, n + 3, 2 * n)) for n in (4, 6, 8, 9, 20)]
    assert len(graphs_for(resized, given)) == 2


def test_the_length_of_a_list_that_grows_is_a_number_that_varies():
    history = []

    def f(x):
        history.append(x.sum())
        return x * len(history), len(history), len(history) % 4 == 0

    log = capture.Log()
    compiled = capture.optimize("eager", strict=True, log=log)(f)
    for count in range(1, 20):
        scaled, length, fourth = compiled(torch.ones(2))
        assert torch.equal(scaled, torch.ones(2) * count)
        assert (length, type(length), fourth, len(history)) == (count, int, count % 4 == 0, count)
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) <= 5


def test_a_list_that_is_looked_into_after_its_length_was_asked_for():
    def f(x, items):
        return x * len(items) + sum(items), items[:] + [len(items)], items.pop()

    compiled = capture.optimize("eager", strict=True)(f)
    for count in (3, 5, 4, 5):
        given, same = list(range(count)), list(range(count))
        found, expected = compiled(torch.ones(2), given), f(torch.ones(2), same)
        assert torch.equal(found[0], expected[0])
        assert (found[1:], given) == (expected[1:], same)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bidirectional": True, "num_layers": 2}])
@pytest.mark.parametrize("train", [True, False])
def test_recurrent_networks_over_lengths_that_vary(kind, options, train):
    network = kind(3, 4, **options)
    function = lambda x: network(x + 1)[0].sin()
    sizes = [(2, n, 3) if options.get("batch_first") else (n, 2, 3) for n in range(2, 12)]
    assert len(graphs_for(function, [(torch.randn(size, requires_grad=train),) for size in sizes])) == 2


def test_recurrent_networks_over_batches_that_vary():
    network = torch.nn.LSTM(3, 4, batch_first=True)
    assert len(graphs_for(lambda x: network(x)[0], [(torch.randn(n, 5, 3),) for n in range(2, 8)])) == 2


@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"padding": [1], "dilation": 2}, {"ceil_mode": True}])
def test_pooling_over_a_length_that_varies(options):
    function = lambda x: torch.nn.functional.max_pool1d(x, (3,), **options)
    more = torch.__version__ < "2.13"  # whose fake's answers hold for fewer lengths
    assert len(graphs_for(function, [(torch.randn(2, 3, n),) for n in range(6, 12)])) <= 2 + more


def test_grids_and_windows_of_lengths_that_vary():
    function = lambda x: torch.linspace(0, 1, len(x)) * x + torch.hann_window(len(x))
    assert len(graphs_for(function, [(torch.randn(n),) for n in range(2, 12)])) == 2


TABLE = torch.arange(480.0).reshape(20, 4, 6)


def assigned(x, n):
    made = TABLE.clone()
    made[n, 1:3] = 7.0
    made[..., n % 4 + 2] += 1
    made[n] *= x[0]
    return made


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: TABLE[n] * x[0],
        lambda x, n: TABLE[:, -2, n // 3],
        lambda x, n: TABLE[None, n, ..., None, 1:3],
        lambda x, n: TABLE[n, [0, 1]],
        lambda x, n: TABLE[TABLE[:, 0, 0] > 90, n // 5],
        assigned,
    ],
)
def test_positions_that_vary(function):
    graphs = graphs_for(function, [(torch.ones(3), n) for n in range(2, 15)])
    assert len(graphs) <= 3
    captured = capture.optimize("eager", strict=True)(function)
    for n in (2, 3, 4):
        assert captured(torch.ones(3), n).stride() == function(torch.ones(3), n).stride()


def test_a_position_that_varies_may_be_outside():
    captured = capture.optimize("eager", strict=True)(lambda x, n: x[n] + 1)
    for n in (2, 3, 4):
        captured(torch.ones(5), n)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 5"):
        captured(torch.ones(5), 5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: torch.tensor(n),
        lambda x, n: torch.tensor([n, 2.5]) * x[:2],
        lambda x, n: torch.tensor([[n, 1], [True, n + 1]]),
        lambda x, n: x.new_tensor([n, x.shape[0]]),
        lambda x, n: torch.as_tensor((n,), dtype=torch.float16),
    ],
)
def test_tensors_of_numbers_that_vary(function):
    graphs = graphs_for(function, [(torch.ones(3), n) for n in range(2, 12)])
    assert len(graphs) == 2
    captured = capture.optimize("eager", strict=True)(function)
    assert {captured(torch.ones(3), n).dtype for n in (2, 3, 4)} == {function(torch.ones(3), 2).dtype}


@pytest.mark.parametrize("function", [
    lambda x: x.reshape(math.prod(x.shape[:2]), -1) * math.prod(x.shape),
    lambda x: x * divmod(x.shape[0], 3)[0] + divmod(100, x.shape[0])[1],
    lambda x: x * abs(x.shape[0] - 100),
])  # fmt: skip
def test_pythons_functions_of_sizes(function):
    assert len(graphs_for(function, [(torch.randn(n, 4, 2),) for n in (5, 7, 8, 20)])) == 2


def test_what_a_mask_says_up_to_a_size_that_something_computed_has(same):
    """As language models ask whether there is padding among the tokens; the size is asked of their embeddings."""
    table = torch.nn.Embedding(10, 4)

    def attend(ids, mask):
        hidden = table(ids)
        if mask.all() or mask[:, : hidden.shape[1] - 1].all():
            return hidden.sum()
        return (hidden * mask[..., None]).sum()

    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(attend)
    for length in (4, 6, 7, 9, 12):
        mask = torch.ones(2, length, dtype=torch.bool)
        mask[0, 1] = False
        same(attend(torch.ones(2, length).long(), mask), captured(torch.ones(2, length).long(), mask))
    whole = torch.ones(2, 5, dtype=torch.bool)
    same(attend(whole.long(), whole), captured(whole.long(), whole))
    mask[0, 1], mask[0, -1] = True, False
    same(attend(torch.ones(2, 12).long(), mask), captured(torch.ones(2, 12).long(), mask))
    kinds = [type(record) for record in log.records()]
    assert (kinds.count(capture.GraphRecord), kinds.count(capture.BreakRecord)) == (4, 0)


_NAMES = "add sub mul floordiv mod truediv pow lt le gt ge eq ne and_ or_ xor lshift rshift"
_OPERATORS = (*(getattr(operator, name) for name in _NAMES.split()), min, max, divmod)


@pytest.mark.parametrize("other", [True, False, 3, -1, -2, 2.5, -1.5])
@pytest.mark.parametrize("function", _OPERATORS, ids=lambda function: function.__name__)
def test_operators_on_an_int_that_varies_are_pythons(function, other):
    """Truths are numbers, and a negative base keeps its sign, whatever text a graph is written as."""

    def both(x, n):
        return x + 1, attempt(n, other), attempt(other, n)

    def attempt(one, two):
        try:
            return function(one, two)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            return type(error)

    region = capture.optimize("eager", strict=True)(both)
    for n in (3, 4, 5):
        assert repr(region(torch.ones(2), n)) == repr(both(torch.ones(2), n))


@pytest.mark.parametrize("base", [-2, -2.0, 2, -0.0])
def test_a_number_to_the_power_of_a_tensor(base):
    power = lambda x: base**x
    (graph,) = graphs_for(power, [(torch.tensor([2.0, 3.0]),)])
    assert torch.equal(graph(torch.tensor([2.0, 3.0]))[0], power(torch.tensor([2.0, 3.0])))


@pytest.mark.parametrize("wanted", [torch.float32, torch.int64])
def test_a_computed_number_that_varies_fits_a_tensor_or_does_not(wanted):
    """Its type asks whether it does; no path leads to such a number."""

    def program(x, angle, factor):
        made = torch.tensor([[math.cos(angle), -math.sin(angle) * factor]], dtype=wanted)
        return made.expand(x.shape[0], 2) * x

    region = capture.optimize("eager", strict=True)(program)
    for rows, angle, factor in ((2, 0.1, 1.0), (3, 0.2, 2.0), (4, 0.3, 1e6), (5, 0.4, 3.0)):
        x = torch.ones(rows, 2)
        try:
            expected = program(x, angle, factor)
        except RuntimeError as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                region(x, angle, factor)
        else:
            assert torch.equal(region(x, angle, factor), expected)


class Layer:
    def __init__(self):
        self.filled = False

    def update(self, new):
        self.kept = torch.cat([self.kept, new], 1) if self.filled else new
        self.filled = True
        return self.kept


def test_all_lengths_of_a_cache_vary_at_once():
    """The prompt, which fills the cache, has fewer tensors than a step and so differs in fewer from the next one."""

    def step(tokens, positions, cache):
        seen = tokens + positions
        for layer in cache:
            seen = seen + layer.update(seen).sum(1, keepdim=True)
        return seen

    log = capture.Log()
    compiled = capture.optimize("eager", strict=True, log=log)(step)
    ours, theirs = ([Layer() for _ in range(4)] for _ in range(2))
    for length, at in ((5, 0), *((1, position) for position in range(5, 14))):
        tokens, positions = torch.rand(2, length), torch.arange(at, at + length)
        assert torch.equal(compiled(tokens, positions, ours), step(tokens, positions, theirs))
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 3


def test_a_float_that_varies_is_refused_by_int64_as_in_eager():
    def program(x, number):
        try:
            return x + 1, (lambda: torch.tensor(number, dtype=torch.int64))()
        except RuntimeError as error:
            return str(error)

    region = capture.optimize("eager")(program)
    for number in (0.1, 0.5, 1e300, 3.0, math.inf):
        assert repr(region(torch.ones(2), number)) == repr(program(torch.ones(2), number))


def test_integers_beyond_those_of_torch_are_pythons():
    program = lambda x, n: (x + 1, n << 70, n**2)
    region = capture.optimize("eager", strict=True)(program)
    for n in (5, 10**18, 2**63 - 1, 2**63, 7):
        assert region(torch.ones(2), n)[1:] == program(torch.ones(2), n)[1:]
