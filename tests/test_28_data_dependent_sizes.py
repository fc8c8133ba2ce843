"""Tensors of as many elements as their data tells, none among them, and operands that do not fit: eager's results and
eager's errors."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import compile_api

INDEX = torch.tensor([0, 1, 1])
ONES = torch.ones(3)
READ = {
    "x[i]": lambda b: b[INDEX] + 1,
    "x[i, i]": lambda b: torch.outer(b, b)[INDEX, INDEX],
    "x[:, i]": lambda b: torch.outer(b, b)[:, INDEX] + 1,
    "x[0]": lambda b: b[0] + 1,
    "x[-1]": lambda b: b[-1] * 2,
    "take": lambda b: b.take(INDEX),
    "gather": lambda b: b.gather(0, INDEX) + 1,
    "index_select": lambda b: b.index_select(0, INDEX) + 1,
    "embedding": lambda b: F.embedding(INDEX, b[:, None]),
    "embedding_bag": lambda b: F.embedding_bag(INDEX[None], b[:, None]),
    "as_strided": lambda b: b.as_strided((2,), (1,)) + 1,
    "narrow": lambda b: b.narrow(0, 0, 2) + 1,
    "unfold": lambda b: b.unfold(0, 2, 1) * 1,
    "view": lambda b: b.view(-1, 2) + 1,
    "reflected": lambda b: F.pad(b[None], (1, 1), mode="reflect"),
    "replicated": lambda b: F.pad(b[None], (1, 1), mode="replicate"),
    "circular": lambda b: F.pad(b[None], (1, 1), mode="circular"),
    "pooled": lambda b: F.max_pool1d(b[None, None], 2),
    "pooled to a size": lambda b: F.adaptive_avg_pool1d(b[None, None], 2),
    "interpolated": lambda b: F.interpolate(b[None, None], size=3, mode="linear"),
    "convolved": lambda b: F.conv1d(b[None, None], torch.ones(1, 1, 2)),
    "nll": lambda b: F.nll_loss(b[None], torch.tensor([1])),
}
WRITTEN = {
    "x[0] =": lambda b: (b.__setitem__(0, 5.0), b)[1],
    "x[i] =": lambda b: (b.__setitem__(INDEX, 5.0), b)[1],
    "put": lambda b: b.put(INDEX, ONES),
    "index_put": lambda b: b.index_put((INDEX,), ONES, accumulate=True),
    "index_fill": lambda b: b.index_fill(0, INDEX, 1.0),
    "index_copy": lambda b: b.index_copy(0, INDEX, ONES),
    "index_add": lambda b: b.index_add(0, INDEX, ONES),
    "index_reduce": lambda b: b.index_reduce(0, INDEX, ONES, "amax"),
    "scatter": lambda b: b.scatter(0, INDEX, 1.0),
    "scatter one": lambda b: b.scatter(0, INDEX[1:2], 1.0),
    "scatter_add": lambda b: b.scatter_add(0, INDEX, ONES),
    "scatter_reduce": lambda b: b.scatter_reduce(0, INDEX, ONES, "amax"),
    "select_scatter": lambda b: b.select_scatter(torch.tensor(1.0), 0, 1),
    "slice_scatter": lambda b: b.slice_scatter(torch.ones(1), 0, 0, 1),
}
REDUCED = {
    "max": lambda b: b.max(),
    "argmax": lambda b: b.argmax(),
    "argmin of an axis": lambda b: b.argmin(0),
    "amax": lambda b: b.amax(),
    "mean": lambda b: b.mean(),
    "std": lambda b: b.std(),
    "median": lambda b: b.median(),
    "kthvalue": lambda b: b.kthvalue(1),
    "topk": lambda b: b.topk(2),
    "softmax": lambda b: b.softmax(0),
    "logcumsumexp": lambda b: b.logcumsumexp(0),
}
NEED_THE_SIZE = {
    *(
        "x[0]",
        "x[-1]",
        "take",
        "narrow",
        "unfold",
        "view",
        "reflected",
        "replicated",
        "circular",
        "pooled",
        "convolved",
    ),
    *("x[0] =", "argmax", "argmin of an axis", "amax", "kthvalue", "topk"),
}
"""Whether eager refuses them depends on how many there are: a graph ends before them."""
GIVEN = [[1.0, 2, 3, -1, 5], [-1.0, 2, -1, 4], [-1.0, -1], [3.0, -1]]


def outcome(call, x):
    try:
        return repr(call(x))
    except Exception as error:  # noqa: BLE001 - whatever eager raises
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore:std\\(\\)", "ignore:index_reduce")  # torch tells once of each process
@pytest.mark.parametrize("name", [*READ, *WRITTEN, *REDUCED])
def test_results_and_errors_are_eagers(name):
    def program(x):
        return {**READ, **WRITTEN, **REDUCED}[name](x[x > 0])

    compiled = compile_api.compile(program)
    for values in GIVEN:
        assert outcome(compiled, torch.tensor(values)) == outcome(program, torch.tensor(values))
    report = compile_api.report(compiled)
    assert report.captured
    assert bool(report.breaks) == (name in NEED_THE_SIZE)


def added_and_multiplied(b, n):
    b[:n] += 1
    b[n:].mul_(3)
    return b


SLICED = {
    "the first": lambda b, n: (b[:n] * 2, b[:n]),
    "the others": lambda b, n: b[n:].exp(),
    "the last": lambda b, n: (b[-n:] + 1, b[:-n].sum()),
    "some": lambda b, n: b[1:n].cumsum(0),
    "how many": lambda b, n: (b[:n].shape[0], b[n:] * b[:n].numel(), torch.zeros(b[:n].shape[0]) + 1),
    "rows": lambda b, n: (b[:n, None] * b[None, n:]).sum(1),
    "written": added_and_multiplied,
}
KNOWS_SLICES = torch.__version__ >= "2.13"  # fakes of 2.11 do not, and the graph breaks there


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", SLICED)
def test_slices_by_a_number_that_varies_are_eagers(name, backend):
    def program(x, n):
        return SLICED[name](x[x > 0], n)

    compiled = compile_api.compile(program, backend=backend, fullgraph=KNOWS_SLICES)
    for values, n in zip(GIVEN * 2, (2, 3, 4, 5, 6, 2, 3, 2), strict=True):
        given = torch.tensor(values)
        assert outcome(lambda x, n=n: compiled(x, n), given) == outcome(lambda x, n=n: program(x, n), given)


FIXED = {**READ, **WRITTEN, "take_along_dim": lambda b: b.take_along_dim(INDEX, 0)}


SEEN = ("x[0]", "x[-1]", "take", "as_strided", "narrow", "unfold", "x[0] =")


@pytest.mark.without_graphs("capture sees that it is refused, ahead of a graph", cases=SEEN)
@pytest.mark.parametrize("name", FIXED)
def test_nothing_is_read_or_written_where_nothing_is(name):
    program = FIXED[name]
    assert outcome(compile_api.compile(program, fullgraph=True), torch.empty(0)) == outcome(program, torch.empty(0))


MISFITS = {
    "a mask of another shape": lambda x: x.masked_fill(x > 9, 1).index_put(
        (torch.ones(2, 3, dtype=torch.bool),), ONES[0]
    ),
    "a mask of no elements": lambda x: torch.empty(0, 3).index_put((torch.ones(2, 2, dtype=torch.bool),), ONES[0]),
    "more rows than are added to": lambda x: x.index_add(1, INDEX[:2], torch.ones(5, 2)),
    "fewer rows than are added to": lambda x: x.index_add(1, INDEX[:2], torch.ones(1, 2)),
    "more than a slice": lambda x: x.slice_scatter(torch.ones(3, 1), 1, 0, 2),
    "less than a selection": lambda x: x.select_scatter(torch.ones(1), 1, 0),
    "a target to be broadcast": lambda x: F.nll_loss(x[None, None], torch.zeros(1, 1, 1, dtype=torch.long)),
    "a weight to be broadcast": lambda x: F.nll_loss(x[None, :, :, None], torch.zeros(1, 2, 1, dtype=int), ONES[:1]),
    "a gradient to be broadcast": lambda x: torch.ops.aten._softmax_backward_data(x[:1], x, 1, x.dtype),
    "nothing, at places of another rank": lambda x: x[0].scatter(0, INDEX[:0], x[0, 0]),
    "argmax of booleans": lambda x: (x > 0).argmax(),
    "a threshold of booleans": lambda x: F.threshold(x > 0, 0, 2),
    "a boolean subtracted": lambda x: x - True,
    "a boolean copied": lambda x: x.copy_(x.requires_grad),
}


@pytest.mark.without_graphs("capture sees that it may be refused", cases=["a boolean subtracted"])
@pytest.mark.parametrize("name", MISFITS)
def test_operands_that_do_not_fit_are_eagers_to_judge(name):
    program = MISFITS[name]
    assert outcome(compile_api.compile(program, fullgraph=True), torch.ones(3, 2)) == outcome(program, torch.ones(3, 2))


def unique_with_both(x):
    values, places, _ = x.unique(return_inverse=True, return_counts=True)
    return values, places


COUNTED_IN_DATA = {
    "unique": lambda x: x.unique(),
    "unique, not all of it used": unique_with_both,
    "unique_consecutive": lambda x: torch.unique_consecutive(x, return_inverse=True)[0],
    "nonzero": lambda x: x.nonzero(),
    "masked": lambda x: x[x > 1],
    "repeated": lambda x: x.repeat_interleave(x),
    "counted": lambda x: x.bincount(),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", COUNTED_IN_DATA)
def test_beside_operators_that_are_taken_apart(name, backend):
    """`linspace` of a size that varies is traced again; the sizes in the data wait for the first trace alone."""

    def program(x, y):
        found = COUNTED_IN_DATA[name](x)
        return found, torch.linspace(0, 1, y.shape[0]) @ y, y * 2

    compiled = compile_api.compile(program, backend=backend, fullgraph=True)
    for n in (3, 5, 7):
        x, y = torch.randint(0, 4, (n,)), torch.randn(n, 2)
        assert outcome(lambda x, y=y: compiled(x, y), x) == outcome(lambda x, y=y: program(x, y), x)
    assert not compile_api.report(compiled).refused


REFUSED = {
    **{
        name: lambda b, name=name: getattr(b, name)(0)
        for name in (
            "max", "min", "amax", "amin", "argmax", "argmin", "median", "nanmedian", "mode", "cummax", "logcumsumexp",
            "prod", "any", "all", "mean", "softmax", "logsumexp", "argsort", "sort", "cumprod",
        )
    },
    "aminmax": lambda b: b.aminmax(dim=0),
    "diff": lambda b: b.diff(),
    "of all": lambda b: b.max(),
    "the place of all": lambda b: b.argmin(),
    "a norm": lambda b: torch.linalg.vector_norm(b, float("inf")),
    "the kth": lambda b: b.kthvalue(1),
    "the best": lambda b: b.topk(1),
    "a quantile": lambda b: b.quantile(0.5),
    "a histogram": lambda b: b.histc(3),
    "drawn": lambda b: (b.abs() + 1).multinomial(1),
    "split": lambda b: b.split(2)[0] * 2,
    "chunks": lambda b: b.chunk(2)[1] * 2,
    "a product": lambda b: b @ torch.ones(2),
    "an outer one": lambda b: torch.outer(b, b).det(),
    **READ,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_met_by_the_handler_whoever_reads_the_result(name, read, backend):
    def function(x, seen):
        b = x[x > 0]
        seen.append("before")
        try:
            found = REFUSED[name](b)
        except (RuntimeError, IndexError, ValueError) as error:
            seen.append(type(error).__name__)
            return x * 2
        return found if read else x + 1

    region = compile_api.compile(function, backend=backend)
    for values in ([1.0, 2.0, -1.0], [-1.0, -2.0, -3.0], [1.0, -2.0, -3.0], [3.0, 2.0, 1.0], [-1.0, -1.0, -1.0]):
        outcomes = []
        for run in (function, region):
            seen = []
            torch.manual_seed(0)
            outcomes.append((run(torch.tensor(values), seen), seen))
        (expected, effects), (found, own) = outcomes
        assert own == effects
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_what_is_selected_is_trained_however_it_lies(order, dim, backend):
    def program(w, chosen):
        selected = w[(*[slice(None)] * dim, chosen)].permute(order)
        return selected.sin(), selected * 2

    outcomes = []
    for function in (program, compile_api.compile(program, backend=backend)):
        w = torch.arange(60.0).view(5, 4, 3).requires_grad_()
        for count in (3, 2):
            results = function(w, torch.arange(w.shape[dim]) < count)
            sum((each * each.detach().cos()).sum() for each in results).backward()
        outcomes.append((w.grad, [(each.detach(), each.stride()) for each in results]))
    torch.testing.assert_close(*outcomes)


@pytest.mark.parametrize("reduced", [lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum()])
def test_second_gradients_behind_a_part_of_an_expanded_gradient(reduced):
    """What backward saves for the second one is a slice, by torch's own kernel, of what was expanded."""

    def program(x, mask):
        loss = reduced(torch.cat([x, x.sin()[mask]])).exp().sum()
        return torch.autograd.grad(loss, x, create_graph=True)[0]

    def gradient(run):
        x = torch.linspace(0, 1, 8).view(4, 2).requires_grad_()
        run(x, torch.tensor([True, False, True, True])).square().sum().backward()
        return x.grad

    torch.testing.assert_close(gradient(compile_api.compile(program)), gradient(program))
