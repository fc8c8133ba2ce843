"""What raises in eager raises the same from compiled code, at the same place among the program's effects; and nothing
else does.  Programs are generated: an operator that looks at its data, effects before and behind it, forms of code.

ERRORS=all runs every combination.
"""

import itertools
import os
import random
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import compile_api

ALL = os.environ.get("ERRORS") == "all"
BACKENDS = ("eager", "aot_eager", "inductor")
BAD = torch.tensor([0, 5, 1])
Expected = (IndexError, RuntimeError, ValueError, KeyError, AssertionError)


def some(cases, count):
    """A part of the cases, the same in every run, or all of them."""
    cases = list(cases)
    return cases if ALL else random.Random(0).sample(cases, min(count, len(cases)))


@torch.library.custom_op("errors::refuses", mutates_args=())
def refuses(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("the operator refuses")


@refuses.register_fake
def _(x):
    return torch.empty_like(x)


def assigned(x):
    made = x.clone()
    made[x.abs() >= 0] = torch.ones(5)
    return x.sum()


def read_but_not_used(x):
    x[BAD]
    return x.sum()


def raised(x):
    if x.sum() < 1e9:
        raise KeyError("the program's own")
    return x.sum()


def asserted(x):
    torch._assert((x > 99).all(), "not that large")
    return x.sum()


RAISE = {
    "cross_entropy": lambda x: F.cross_entropy(x, BAD),
    "index": lambda x: x[BAD].sum(),
    "part of an index": lambda x: x[BAD][:1].sum(),
    "gather": lambda x: x.gather(0, BAD.view(3, 1)).sum(),
    "scatter_add": lambda x: x.scatter_add(0, BAD.view(3, 1), x).sum(),
    "index_put": lambda x: x.index_put((BAD,), torch.ones(4)).sum(),
    "embedding": lambda x: F.embedding(BAD, x).sum(),
    "take": lambda x: x.take(torch.tensor([99])).sum(),
    "inv": lambda x: torch.linalg.inv(x[:, :3] * 0).sum(),
    "multinomial": lambda x: torch.multinomial(-x.abs() - 1, 1).sum(),
    "bernoulli": lambda x: torch.bernoulli(x.abs() + 2).sum(),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.abs() + 2, torch.ones(3, 4)),
    "custom": lambda x: refuses(x).sum(),
    "masked_scatter": lambda x: x.masked_scatter(torch.ones(3, 4, dtype=torch.bool), torch.ones(2)).sum(),
    "division": lambda x: (BAD // (BAD * 0)).sum() + x.sum(),
    "assigned": assigned,
    "not used": read_but_not_used,
    "raise": raised,
    "assert": asserted,
}


class World:
    """What a program may change."""

    def __init__(self):
        torch.manual_seed(0)
        self.count, self.seen, self.norm = [0], torch.zeros(1), torch.nn.BatchNorm1d(4)
        self.linear = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.linear.parameters(), lr=0.1, momentum=0.9)
        self.x, self.h, self.leaf = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True) * 1, torch.zeros(3, 4)
        self.whole = torch.zeros(6, 4)
        self.part = self.whole[1:4]

    def state(self):
        parameters = list(self.linear.parameters())
        held = [*vars(self).values(), *self.norm.buffers(), *parameters, *(p.grad for p in parameters)]
        held += [item for state in self.optimizer.state.values() for item in state.values()]
        history = [self.h.grad_fn is None, self.leaf.grad_fn is None]
        return [x.detach().clone() for x in held if isinstance(x, torch.Tensor)], [*self.count], history, torch.rand(1)


def step(world, x):
    world.linear(x).square().sum().backward()
    world.optimizer.step()
    world.optimizer.zero_grad()


EFFECTS = {
    "count": lambda world, x: world.count.append(len(world.count)),
    "add_": lambda world, x: world.seen.add_(1),
    "batch norm": lambda world, x: world.norm(x),
    "random": lambda world, x: torch.rand(3, 4),
    "backward": lambda world, x: world.linear(x).square().sum().backward(),
    "step": step,
    "history": lambda world, x: world.h.mul_(2),
    "new history": lambda world, x: world.leaf.add_(world.linear(x)),
    "view": lambda world, x: world.part.add_(1),
    "argument": lambda world, x: x.add_(1),
    "data": lambda world, x: world.linear.weight.data.mul_(0.5),
}


def plain(world, before, operator, after):
    for effect in before:
        effect(world, world.x)
    result = operator(world.x)
    for effect in after:
        effect(world, world.x)
    return result


def handled(world, before, operator, after):
    try:
        return plain(world, before, operator, after)
    except Expected as error:
        world.seen.add_(10)
        return len(str(error))


def in_a_loop(world, before, operator, after):
    for turn in range(2):
        for effect in before:
            effect(world, world.x)
        if turn:
            operator(world.x)
        for effect in after:
            effect(world, world.x)


def suspended(world, before, operator, after):
    def values():
        for effect in before:
            effect(world, world.x)
        yield world.x
        yield operator(world.x)
        for effect in after:
            effect(world, world.x)

    return sum(value.sum() for value in values())


def outcomes(function, parts):
    world, found = World(), []
    for _ in range(2):
        try:
            ended = function(world, *parts)
        except Expected as error:
            ended = type(error), str(error)
        found.append((ended, world.state()))
    return found


def assert_alike(expected, actual):
    ours, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    assert len(ours) == len(theirs)
    for one, other in zip(theirs, ours, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(other, one, equal_nan=True, rtol=1e-4, atol=1e-5)
        else:
            assert one == other


FORMS = (plain, handled, in_a_loop, suspended)
PROGRAMS = some(itertools.product(FORMS, RAISE, itertools.combinations(EFFECTS, 2)), 10)


@pytest.mark.parametrize(("form", "operator", "effects"), PROGRAMS)
def test_the_world_is_as_eager_leaves_it(form, operator, effects):
    first, second = (EFFECTS[name] for name in effects)
    parts = (first, second), RAISE[operator], (first,)
    expected = outcomes(form, parts)
    for backend in BACKENDS:
        compile_api.reset()
        compiled = compile_api.compile(form, backend=backend)
        assert_alike(expected, outcomes(compiled, parts))
        assert compile_api.report(compiled).frames


# -- memory that is resized, or lies over other memory ------------------------------------------------------------

RESULTS = {
    "empty": lambda: torch.empty(0),
    "of another size": lambda: torch.zeros(50),
    "of the same size": lambda: torch.zeros(2, 3),
    "of other strides": lambda: torch.zeros(3, 2).t(),
    "of another type": lambda: torch.zeros(2, 3, dtype=torch.float64),
    "of whole numbers": lambda: torch.zeros(2, 3, dtype=torch.int64),
    "a view": lambda: torch.zeros(4, 3)[1:2],
    "expanded": lambda: torch.zeros(1, 3).expand(2, 3),
    "with a gradient": lambda: torch.zeros(2, 3, requires_grad=True),
}
WRITE = {
    "add": lambda x, out: torch.add(x, 1, out=out),
    "abs": lambda x, out: torch.abs(x, out=out),
    "cat": lambda x, out: torch.cat([x, x], out=out),
    "sum": lambda x, out: torch.sum(x, 0, out=out),
    "matmul": lambda x, out: torch.matmul(x, x.t(), out=out),
    "sort": lambda x, out: torch.sort(x, out=(out, torch.empty(0, dtype=torch.int64))),
    "set_": lambda x, out: out.set_(x),
    "resize_as_": lambda x, out: out.resize_as_(x).zero_(),
    "shrunk": lambda x, out: out.resize_(1).zero_(),
}


def written(function, make):
    x, out = torch.arange(6.0).reshape(2, 3), make()
    found = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = pytree.tree_leaves(function(x, out))[0]
                found.append([result is out, result.tolist()])
            except (RuntimeError, TypeError) as error:
                found.append([str(error)])
        layout = out.shape, out.stride(), out.dtype, out.untyped_storage().nbytes()
        found.append([out.tolist(), layout, [str(warning.message) for warning in told]])
    return found


@pytest.mark.without_graphs("CPython resizes, after a break", cases="some")
@pytest.mark.parametrize(("write", "result"), some(itertools.product(WRITE, RESULTS), 12))
def test_what_is_written_to_is_resized_as_in_eager(write, result):
    """Mostly by CPython, after a break: that there is a break where one is needed is the point."""
    expected = written(WRITE[write], RESULTS[result])
    for backend in BACKENDS:
        compile_api.reset()
        assert written(compile_api.compile(WRITE[write], backend=backend), RESULTS[result]) == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [(4, 4), (2, 3)])
def test_a_window_does_not_reach_beyond_memory(backend, size):
    base = torch.arange(9.0)

    def function(x):
        return x.as_strided(size, (3, 1)) + 1

    function_compiled = compile_api.compile(function, backend=backend)
    for x in (base, base[4:]):
        assert ended(function_compiled, x) == ended(function, x)
    report = compile_api.report(function_compiled)
    assert (len(report.captured), len(report.breaks)) == (int(size == (2, 3)), 1)


# -- functions of torch that a program replaces --------------------------------------------------------------------


def ended(function, *args, **kwargs):
    """What came of a call: how it ended, and what it gave where that can be compared."""
    torch.manual_seed(0)
    try:
        return pytree.tree_map(lambda x: x.tolist() if isinstance(x, torch.Tensor) else x, function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - any kind is compared
        return type(error), str(error)


def unary_functions():
    x = torch.rand(2, 3) / 2 + 0.25
    for home in (torch, F):
        for name in sorted(vars(home)):
            if (
                name.startswith(("_", "set_", "manual"))
                or name.endswith("_")
                or name in ("seed", "typename", "compile")
            ):
                continue
            function = vars(home)[name]
            is_operation = callable(function) and not isinstance(function, type)
            if is_operation and (getattr(function, "__module__", None) in (None, F.__name__, "torch._C._nn")):
                try:
                    result = function(x)
                except Exception:  # noqa: BLE001 - it is no function of one tensor
                    continue
                if isinstance(result, torch.Tensor) and result.dtype is x.dtype and gives_always(function, x, result):
                    yield home, name


def gives_always(function, x, result):
    """A draw of few numbers is what it was by chance, and what is collected would differ from worker to worker."""
    return all(torch.equal(result, function(x)) for _ in range(20))


def doubled(function):
    return lambda *args, **kwargs: function(*args, **kwargs) * 2


METHODS = [(torch.Tensor, "exp"), (torch.nn.ReLU, "forward"), (torch.nn.Module, "__call__")]


@pytest.mark.parametrize(("home", "name"), [*some(unary_functions(), 6), *METHODS])
def test_a_function_that_is_replaced_is_called(monkeypatch, home, name):
    x, modules = torch.rand(2, 3) / 2 + 0.25, torch.nn.ReLU()

    def function(x):
        if home is torch.Tensor:
            return x.exp()
        return modules(x) if isinstance(home, type) else getattr(home, name)(x)

    compiled = [compile_api.compile(function, backend=backend) for backend in BACKENDS]
    for replacement in (None, doubled(getattr(home, name)), getattr(home, name)):
        if replacement is not None:
            monkeypatch.setattr(home, name, replacement)
        for each in compiled:
            torch.testing.assert_close(each(x), function(x))
    assert all(compile_api.report(each).captured for each in compiled)


# -- wrong operands ------------------------------------------------------------------------------------------------

MOST_DIMENSIONS = 64  # beyond them torch 2.11 asserts when a tensor is asked for its names
WITH_ERRORS = [op for op in op_db if op.error_inputs_func is not None and not op.name.startswith("sparse")]


@pytest.mark.without_graphs("capture sees that it is refused, ahead of a graph", cases="some")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", some(WITH_ERRORS, 6), ids=lambda op: op.formatted_name)
def test_what_eager_refuses_is_refused(op):
    for sample in (wrong.sample_input for wrong in op.error_inputs("cpu")):
        if getattr(sample.input, "ndim", 0) > MOST_DIMENSIONS:
            continue
        args = (sample.input, *sample.args)
        for backend in BACKENDS:
            compile_api.reset()
            compiled = compile_api.compile(
                lambda *args, op=op, **kwargs: op.op(*args, **kwargs), backend=backend, fullgraph=True
            )
            assert ended(compiled, *args, **sample.kwargs) == ended(op.op, *args, **sample.kwargs)


WRONG = {
    "a number too large for its type": lambda x: torch.full((2,), 300, dtype=torch.uint8),
    "too many values": lambda x: x.index_put((torch.tensor([0, 1]),), torch.ones(3, 4)),
    "relu of truths": lambda x: torch.relu(x > 0),
    "celu without alpha": lambda x: F.celu(x, alpha=0.0),
    "a negative beta": lambda x: F.smooth_l1_loss(x, x, beta=-1.0),
    "a negative delta": lambda x: F.huber_loss(x, x, delta=-1.0),
    "an assertion": lambda x: (torch._assert(x.shape[0] == 9, "nine rows"), x)[1],
    "a dimension too many": lambda x: F.softmin(x, dim=2),
    "a fill by what is no number": lambda x: x.clone().fill_(x[0, :1]),
    "a fill by a row": lambda x: torch.fill(x, x[0]),
    "statistics that are no vectors": lambda x: F.batch_norm(x, x[:1, :] * 0, x[0] * 0, training=True),
    "an embedding of floats": lambda x: F.embedding(x, x),
    "dropout of whole numbers": lambda x: (F.dropout(x.long(), 0.5), x)[1],
    "logits of whole numbers": lambda x: torch.log_softmax(x.to(torch.int16), 0),
}


SEEN = (
    *("a number too large for its type", "celu without alpha", "a negative beta", "a negative delta"),
    *("an assertion", "a dimension too many"),
    *(("an embedding of floats",) if torch.__version__ >= "2.13" else ()),  # 2.11's fake takes it
)


@pytest.mark.without_graphs(
    "capture sees that it is refused, ahead of a graph", cases=[*map("-".join, itertools.product(BACKENDS, SEEN))]
)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_operands_are_refused(wrong, backend):
    x = torch.randn(3, 4)
    expected = ended(WRONG[wrong], x)
    assert isinstance(expected, tuple)
    assert ended(compile_api.compile(WRONG[wrong], backend=backend, fullgraph=True), x) == expected


@pytest.mark.parametrize("number", [0.0, 1.0, -0.5, 1.5, float("nan")])
@pytest.mark.parametrize("sizes", [(), (1,), (2, 3)])
def test_quantiles_are_within_range(number, sizes):
    """Of one number, which any quantile picks, too; the version that is there for 0.25 is asked."""
    program, x = compile_api.compile(lambda x, q: torch.quantile(x, q)), torch.rand(sizes)
    for q in (torch.tensor(0.25), torch.tensor(number)):
        if 0 <= q <= 1:
            assert torch.equal(program(x, q), torch.quantile(x, q))
        else:
            with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
                program(x, q)
    assert len(compile_api.report(program).captured) == (torch.__version__ >= "2.13")  # 2.11 looks at the number
