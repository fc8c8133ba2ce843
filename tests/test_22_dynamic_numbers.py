"""Numbers that vary from call to call and are read in many places: one input for one path, and eager's results.

NUMBER_PROGRAMS says how many programs are drawn; the number tried is printed.
"""

import math
import operator
import os
import random
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import capture
import compile_api

EXPRESSIONS = """
cfg.val
cfg.val * 2
cfg.val + cfg.other
cfg.inner.val
cfg.inner.val - cfg.val
cfg.values[0]
cfg.values[1] * cfg.values[0]
cfg.table['a']
-cfg.table['a']
number
number + cfg.val
float(cfg.size)
cfg.size
cfg.size + number
cfg.size * cfg.val
GLOBAL
GLOBAL * number
(cfg.val ** 2)
(0.9 ** cfg.size)
math.cos(number)
(math.sqrt(abs(cfg.other)) % 3)
(number // 0.25)
round(cfg.inner.val, 1)
""".strip().splitlines()
STATEMENTS = """
x = x + {0}
x = x * {0} - {1}
x = {0} - x
x = x / ({0} + 10)
for _ in range(cfg.count): x = x + {0}
for v in (cfg.val, cfg.val, {0}): x = x * v
x = torch.where(x > {0}, x, x * {1})
x = x.clamp(max={0} + 100)
x = torch.full_like(x, {0}) + x
x = x.masked_fill(x > {0}, {1})
x = helper(x, {0}) + helper(x, {0})
x[0] = {0}
x = torch.nn.functional.leaky_relu(x, {0})
cfg.seen = {0}
x = x + float({0})
x = torch.add(x, x, alpha={0})
x = x.half().float() + {0}
x = x ** 2 + {0} ** 2
cfg.buffer.mul_({0}); x = x + cfg.buffer
cfg.buffer.add_(x, alpha={0})
(cfg.weight * {0}).sum().backward(); x = x + cfg.weight.grad
""".strip().splitlines()


def program(lines):
    source = "\n    ".join(["def program(x, cfg, number):", "x = x.clone()", *lines, "return x"])
    namespace = {"torch": torch, "math": math, "GLOBAL": 0.5, "helper": lambda x, value: x * value + value}
    exec(compile(source, "<program>", "exec"), namespace)
    return namespace["program"], namespace


def configuration(step):
    a, b, c = step * 0.37 + 0.5, step * 0.11 - 1.25, step + 3
    inner = SimpleNamespace(val=b * 2)
    numbers = {"val": a, "other": b, "inner": inner, "values": [a, b], "table": {"a": a * b}, "size": c, "count": 3}
    return SimpleNamespace(**numbers, seen=None, buffer=torch.ones(3), weight=torch.ones(3, requires_grad=True))


def outcomes(function, namespace):
    seen = []
    for step in range(4):
        cfg, namespace["GLOBAL"] = configuration(step), step * 0.25 + 0.1
        result = function(torch.tensor([0.5, -2.0, 3.0]), cfg, step * 0.2 + 0.3)
        seen.append((result, cfg.seen, cfg.buffer, cfg.weight.grad))
    return seen


def drawn(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        yield [
            draw.choice(STATEMENTS).format(draw.choice(EXPRESSIONS), draw.choice(EXPRESSIONS))
            for _ in range(draw.randint(1, 4))
        ]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_programs_give_what_eager_gives_and_no_graph_is_given_up(backend, capsys):
    count = int(os.environ.get("NUMBER_PROGRAMS", "40" if backend == "eager" else "8"))
    seed = int(os.environ.get("NUMBER_SEED", random.randrange(10**6)))
    for lines in drawn(count, seed):
        compile_api.reset()
        expected = outcomes(*program(lines))
        function, namespace = program(lines)
        compiled = compile_api.compile(function, backend=backend)
        found = outcomes(compiled, namespace)
        torch.testing.assert_close(found, expected, equal_nan=True, msg=lambda text: f"{lines}\n{text}")
        report = compile_api.report(compiled)
        assert report.captured, lines
        assert not report.refused, lines
    with capsys.disabled():
        print(f" {count} programs over numbers that vary, seed {seed}", end="")


# Functions in Python: of one in C, given as it is, there would be nothing to capture.
HOLDS = {
    "clamp": lambda x, n: x.clamp(max=n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "fill_": lambda x, n: x.clone().fill_(n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "new_full": lambda x, n: x.new_full((2,), n),
    "where": lambda x, n: torch.where(x > 0, x, n),
    "threshold": lambda x, n: torch.nn.functional.threshold(x, 1, n),
    "pad": lambda x, n: torch.nn.functional.pad(x, (1, 1), value=n),
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor([0]), n),
    "alpha": lambda x, n: torch.add(x, x, alpha=n),
    "a sum of it": lambda x, n: x.clamp(max=n + n),
    "tensor": lambda x, n: torch.tensor(n, dtype=x.dtype) + x,
    "item": lambda x, n: operator.setitem(x, 0, n) or x,
    "x * n": lambda x, n: x * n,
    "n / x": lambda x, n: n / x,
}
WIDE = [(dtype, (2, 3, 4, 300, -300, 40_000, 2**40)) for dtype in (torch.int8, torch.int16, torch.int32, torch.float16)]
WIDE += [(dtype, (0.5, 1.5, 2.5, 7e4, 1e39)) for dtype in (torch.float16, torch.bfloat16, torch.float32)]


def result_or_error(function, tensor, number):
    try:
        return function(tensor.clone(), number)
    except Exception as error:  # noqa: BLE001 - whatever eager raises
        return type(error), str(error)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", HOLDS)
def test_numbers_that_a_dtype_cannot_hold_are_refused_as_in_eager(name, backend):
    for dtype, numbers in WIDE:
        compile_api.reset()
        compiled, x = compile_api.compile(HOLDS[name], backend=backend), torch.tensor([0, 1, 5, 100], dtype=dtype)
        for number in numbers:
            found, expected = (result_or_error(function, x, number) for function in (compiled, HOLDS[name]))
            if isinstance(expected, tuple) or isinstance(found, tuple):
                assert found == expected, (dtype, number)
            else:
                torch.testing.assert_close(found, expected, equal_nan=True)
        assert compile_api.report(compiled).captured, dtype


def test_numbers_that_a_dtype_holds_are_of_one_graph(recording):
    compiled = compile_api.compile(lambda x, n, f: x.clamp(max=n).half().clamp(max=f), backend=recording)
    for step in range(6):
        compiled(torch.ones(3, dtype=torch.int8), step + 2, step + 0.5)
    assert len(recording.graphs) == 2


def test_a_number_read_in_a_loop_is_one_input(recording):
    def function(x, cfg):
        for _ in range(cfg.count):
            x = x + cfg.val
        return x

    compiled = compile_api.compile(function, backend=recording)
    for val in (0.5, 0.7, 0.9):
        assert compiled(torch.zeros(2), SimpleNamespace(count=3, val=val)).tolist() == pytest.approx([val * 3] * 2)
    inputs = [node.name for node in recording.graphs[-1].graph.nodes if node.op == "placeholder"]
    assert inputs == ["x", "cfg_val"]


def test_a_graph_that_no_call_would_fit_is_found_before_it_is_used(monkeypatch, recording):
    recorder = capture.recording.graph.GraphRecorder
    finish = recorder._check_inputs
    monkeypatch.setattr(recorder, "_check_inputs", lambda self, sources: finish(self, sources[1:]))
    with pytest.raises(capture.InternalError, match="a graph takes y, x, and would be given x"):
        capture.optimize(recording, strict=True)(lambda x, y: x + y)(torch.ones(2), torch.ones(2))
    assert not recording.graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("add", [
    lambda x, y, rate: x.add(y, alpha=rate),
    lambda x, y, rate: x.clone().sub_(y, alpha=rate),
    lambda x, y, rate: torch._foreach_add([x, x], [y, y], alpha=rate)[1],
])  # fmt: skip
def test_a_factor_of_less_precision_loses_none_of_the_sums(add, backend):
    compiled = compile_api.compile(add, backend=backend, fullgraph=True)
    x, y = torch.linspace(-1, 1, 7, dtype=torch.float64), torch.linspace(0.1, 3, 7)
    for rate in (0.1, 0.2, 0.7):
        torch.testing.assert_close(compiled(x, y, rate), add(x, y, rate), rtol=1e-14, atol=1e-14)


def test_lists_of_two_lengths_are_refused_as_in_eager():
    """By CPython, after a break: there is no graph of what raises."""
    compiled = compile_api.compile(lambda xs, ys, rate: torch._foreach_add(xs, ys, alpha=rate), backend="eager")
    x = torch.ones(2)
    for rate in (0.1, 0.2, 0.3):
        with pytest.raises(RuntimeError, match=r"same number of tensors|same length|got 1 and 2"):
            compiled([x], [x, x], rate)
    assert compile_api.report(compiled).breaks


@pytest.mark.parametrize("split", [torch.split, torch.chunk, torch.tensor_split])
def test_parts_of_a_varying_number_are_a_list_of_one_too(split):
    compiled = compile_api.compile(lambda x, n: [part * 2 for part in split(x, n)])
    with warnings.catch_warnings(action="error"):  # such as that a graph raised, and CPython ran the function
        for rows, n in ((6, 2), (7, 10), (7, 7), (1, 1), (9, 4)):
            x = torch.randn(rows, 2)
            torch.testing.assert_close(compiled(x, n), [part * 2 for part in split(x, n)])


FILLS = {
    "full": lambda x, n: torch.full(x.shape, n, dtype=x.dtype),
    "new_full": lambda x, n: x.new_full(x.shape, n),
    "full_like": lambda x, n: torch.full_like(x, n),
    "fill_": lambda x, n: x.clone().fill_(n),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("fill", FILLS)
def test_numbers_that_do_not_fit_are_refused_as_in_eager(fill, dtype):
    for shape in ((), (1,), (1, 1), (2,)):
        compiled, x = compile_api.compile(FILLS[fill], backend="eager"), torch.ones(shape).to(dtype)
        for number in (1.5, 2.5, 1e300):
            assert outcome(compiled, x, number) == outcome(FILLS[fill], x, number)
        assert len(compile_api.report(compiled).captured) >= 2


def outcome(function, *args):
    try:
        return function(*args).tolist()
    except RuntimeError as error:
        return str(error).partition("\n")[0]


PLACES = torch.tensor([3, 2, 3])
MEAN_SOMETHING_ELSE = {
    "dropout": lambda x, n: F.dropout(x, n / 5),
    "dropout of whole numbers": lambda x, n: F.dropout(x, n // 5),
    "dropout by another function": lambda x, n: F.dropout1d(x[None], n // 5)[0],
    "dropout in place": lambda x, n: F.dropout(x * 1, n // 5, inplace=True),
    "alpha dropout": lambda x, n: F.alpha_dropout(x, n // 5),
    "attention": lambda x, n: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=n // 5)[0],
    "training": lambda x, n: F.dropout(x, 0.5, training=n > 2),
    "embedding": lambda x, n: F.embedding(PLACES, x, padding_idx=n),
    "last row of an embedding": lambda x, n: F.embedding(PLACES, x, padding_idx=-n - 1),
    "bag": lambda x, n: F.embedding_bag(PLACES[None], x, padding_idx=n, mode="sum"),
    "mvlgamma": lambda x, n: torch.mvlgamma(x + 7, n),
    "multigammaln": lambda x, n: torch.special.multigammaln(x + 7, n),
    "polygamma": lambda x, n: torch.polygamma(n, x + 1),
    "renorm": lambda x, n: torch.renorm(x, n, 0, 1.0),
    "norm": lambda x, n: torch.linalg.vector_norm(x, n, 1),
    "cdist": lambda x, n: torch.cdist(x, x * 2, n),
    "power": lambda x, n: x**n,
    "power of a matrix": lambda x, n: torch.linalg.matrix_power(x @ x.T, n),
    "label smoothing": lambda x, n: F.cross_entropy(x[:3], PLACES - 2, label_smoothing=n / 5),
    "ignored": lambda x, n: F.cross_entropy(x[:3], PLACES - 2, ignore_index=n - 1),
    "huber": lambda x, n: F.huber_loss(x, x * 3, delta=n),
    "smooth l1": lambda x, n: F.smooth_l1_loss(x, x * 3, beta=n),
    "celu": lambda x, n: F.celu(-x, n),
    "threshold": lambda x, n: F.threshold(x, n, n),
    "gumbel": lambda x, n: F.gumbel_softmax(x, n),
    "clip": lambda x, n: x.clamp(n, 3 - n),
    "quotient": lambda x, n: torch.div(x, n, rounding_mode="floor"),
    "shift": lambda x, n: (x.long() << n) >> n,
    "rotated": lambda x, n: torch.rot90(x[:, :1] * x[:, 1:], n),
    "one hot": lambda x, n: F.one_hot(PLACES, n) + x[0, 0],
    "combinations": lambda x, n: torch.combinations(x[:, 0], n),
}


def with_gradient(function, number):
    torch.manual_seed(0)
    x = torch.linspace(1, 2, 12, dtype=torch.double).view(6, 2).requires_grad_()
    try:
        result = function(x, number)
        gradient = torch.autograd.grad(result.sum(), x)[0] if result.requires_grad else None
    except (RuntimeError, ValueError, IndexError, AssertionError) as error:
        return type(error)
    return result, gradient, torch.rand(1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MEAN_SOMETHING_ELSE)
def test_numbers_that_mean_something_else_to_an_operator(name):
    """Zero, one, minus one: a version for numbers that vary knows them, too."""
    compiled = compile_api.compile(MEAN_SOMETHING_ELSE[name])
    for number in (2, 4, 5, 1, 0, 3, -1, 7):
        eager, ours = (with_gradient(each, number) for each in (MEAN_SOMETHING_ELSE[name], compiled))
        assert isinstance(eager, tuple) == isinstance(ours, tuple), (number, eager, ours)
        if isinstance(eager, tuple):
            torch.testing.assert_close(ours, eager, equal_nan=True)
        else:
            assert ours is eager, number
    assert len(compile_api.report(compiled).captured) >= 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [operator.floordiv, operator.mod, operator.truediv, lambda a, b: divmod(a, b)[1]])
def test_numbers_are_divided_by_others_in_the_graph(function, backend, recwarn):
    f = compile_api.compile(lambda x, a, b: x * function(a, b), backend=backend)
    x = torch.ones(3)
    for a, b in [(7, 2), (9, 4), (11, 3), (8, 5), (0, 7)]:
        assert f(x, a, b).equal(x * function(a, b))
    with pytest.raises(ZeroDivisionError):
        f(x, 8, 0)
    assert not recwarn.list
