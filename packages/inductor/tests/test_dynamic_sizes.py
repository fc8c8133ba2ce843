"""One program for many sizes: sizes that the tracer left open are read at run time."""

import pytest
import torch
import torch.nn.functional as F
from reference import run_program
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.decompose import prepare
from inductor.ir.program import Launch
from inductor.ir.verify import verify_program
from inductor.lower import lower
from inductor.schedule import schedule


def open_program(function, *inputs):
    with torch.no_grad():
        gm = make_fx(function, tracing_mode="symbolic")(*inputs)
    graph = lower(prepare(gm, inputs))
    return schedule(graph)


CASES = {
    "halves": (lambda x: x.view(x.shape[0] // 2, 2, -1).sum(1) + x.view(-1, x.shape[0] // 2).sum(0)[:, None],
               lambda n, m: (torch.randn(2 * n, m),)),
    "pointwise": (lambda x, y: (x + y).relu() * 2, lambda n, m: (torch.randn(n, m), torch.randn(m))),
    "reduction": (lambda x: (x.sum(1), x.mean(), x.amax(0)), lambda n, m: (torch.randn(n, m),)),
    "softmax": (lambda x: F.softmax(x, -1), lambda n, m: (torch.randn(n, m),)),
    "views": (lambda x: (x.view(-1) + 1, x.t() * 2, x[1:] + 1, x.unsqueeze(0).expand(2, -1, -1) + 1),
              lambda n, m: (torch.randn(n, m),)),
    "product": (lambda x: F.gelu(x @ x.t()), lambda n, m: (torch.randn(n, m),)),
    "cat": (lambda x, y: torch.cat([x, y], 0) + 1, lambda n, m: (torch.randn(n, m), torch.randn(3, m))),
    "arange": (lambda x: x + torch.arange(x.shape[1]), lambda n, m: (torch.randn(n, m),)),
    "norm": (lambda x: F.layer_norm(x, x.shape[1:]), lambda n, m: (torch.randn(n, m),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_other_sizes(name):
    function, inputs = CASES[name]
    program = open_program(function, *inputs(5, 7))
    verify_program(program)
    assert any(step.kernel.sizes for step in program.steps if isinstance(step, Launch))
    for n, m in ((5, 7), (4, 3), (9, 16)):
        given = inputs(n, m)
        expected = torch.utils._pytree.tree_leaves(function(*given))
        torch.testing.assert_close(run_program(program, given), expected, atol=1e-5, rtol=1e-5)


def test_sizes_that_come_from_data():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    def function(x):
        places = x.nonzero()
        return places * 2, places.sum(0), torch.ones(places.shape[0]) + 1

    x = torch.tensor([[1.0, 0.0], [2.0, 3.0]])
    mode = FakeTensorMode(shape_env=ShapeEnv())
    gm = make_fx(function, tracing_mode="symbolic", _allow_fake_constant=True)(mode.from_tensor(x, static_shapes=True))
    program = schedule(lower(prepare(gm, [x])))
    verify_program(program)
    for given in (x, torch.zeros(2, 2), torch.eye(2)):
        torch.testing.assert_close(run_program(program, [given]), list(function(given)))


def test_an_integer_input_may_be_called_anything():
    """Its symbol names it in the wrapper, whatever its placeholder is called."""
    x = torch.ones(3)
    graph = make_fx(lambda x, y: x * y.shape[0], tracing_mode="symbolic")(x, torch.ones(7)).graph
    (mul,) = (node for node in graph.nodes if node.target is torch.ops.aten.mul.Tensor)
    size = mul.args[1]
    with graph.inserting_before(next(iter(graph.nodes))):
        number = graph.placeholder("whatever")
    number.meta = dict(size.meta)
    size.replace_all_uses_with(number)
    graph.eliminate_dead_code()
    for node in [node for node in graph.nodes if node.op == "placeholder" and not node.users]:
        graph.erase_node(node)
    gm = torch.fx.GraphModule({}, graph)
    compiled = inductor.compile(gm, [node.meta["val"] for node in graph.nodes if node.op == "placeholder"])
    assert torch.equal(compiled(5, x)[0], x * 5)


def test_an_integer_read_from_a_tensor_may_be_negative_and_outside():
    def parts(x):
        n = x.long().sum().item()
        return x[n:] * 2, x[:n] + 1, x * n, x.clamp(max=n)

    compiled = inductor.compile(make_fx(parts, tracing_mode="symbolic")(torch.ones(4)), [torch.ones(4)])
    for total in (-9, -2, 0, 1, 3, 9):
        x = torch.tensor([0.0, 0.0, 0.0, total])
        for found, expected in zip(compiled(x), parts(x), strict=True):
            torch.testing.assert_close(found, expected)


def test_a_position_read_from_a_tensor_is_checked():
    def row(x):
        return x.select(0, x.long().sum().item()) * 2

    compiled = inductor.compile(make_fx(row, tracing_mode="symbolic")(torch.zeros(2, 2)), [torch.zeros(2, 2)])
    with pytest.raises(IndexError, match="out of range"):
        compiled(torch.ones(2, 2) * 5)


def test_a_size_that_no_input_tells_is_refused_by_name():
    x = torch.ones(3)
    graph = make_fx(lambda x, y: x.new_ones(y.shape[0]) + 1, tracing_mode="symbolic")(x, torch.ones(7)).graph
    (number,) = (node for node in graph.nodes if node.target is torch.ops.aten.sym_size.int)
    with graph.inserting_before(next(iter(graph.nodes))):
        less = graph.placeholder("less")
    less.meta = {"val": number.meta["val"] - 1}
    number.replace_all_uses_with(less)
    graph.eliminate_dead_code()
    graph.erase_node(graph.find_nodes(op="placeholder")[2])
    with pytest.raises(inductor.UnsupportedGraph, match="a size that no input tells"):
        inductor.compile(torch.fx.GraphModule({}, graph), [2, x], options={"fallback": False})


@pytest.mark.parametrize("function", [
    lambda x, y: x * (y.shape[0] / 3),
    lambda x, y: x / (2.0 * y.shape[0] - 1) + y.shape[0] ** 0.5,
    lambda x, y: x.div(y.shape[0] / x.shape[0]) + torch.arange(4) * (x.shape[0] / (y.shape[0] + 1)),
])  # fmt: skip
def test_floats_made_of_sizes_are_computed_by_kernels(function):
    graph = make_fx(function, tracing_mode="symbolic")(torch.ones(4), torch.ones(7))
    compiled = inductor.compile(graph, [torch.ones(4), torch.ones(7)], options={"fallback": False})
    assert compiled.report.kernels
    for length in (7, 3, 12):
        given = torch.randn(4), torch.ones(length)
        torch.testing.assert_close(compiled(*given)[0], function(*given))


@pytest.mark.parametrize(
    "maximum",
    [
        lambda n: n / 4,
        lambda n: n**0.5,
        lambda n: torch.sym_sqrt(n) * 0.3 - 1 / n,
    ],
)
def test_operators_that_run_as_they_are_take_floats_made_of_sizes(maximum):
    function = lambda x: torch.renorm(x, 2, 0, maximum(x.shape[1])) + 1
    with torch.no_grad():
        gm = make_fx(function, tracing_mode="symbolic")(torch.randn(3, 5))
    compiled = inductor.compile(gm, [torch.randn(3, 5)])
    for size in (5, 8, 30):
        x = torch.randn(3, size)
        torch.testing.assert_close(compiled(x)[0], function(x))


def test_a_float_that_is_given_is_never_taken_for_its_example():
    graph = make_fx(lambda x, y: x * (y.shape[0] / 3), tracing_mode="symbolic")(torch.ones(4), torch.ones(7)).graph
    (ratio,) = (node for node in graph.nodes if isinstance(node.meta.get("val"), torch.SymFloat))
    with graph.inserting_before(next(iter(graph.nodes))):
        given = graph.placeholder("ratio")
    given.meta = dict(ratio.meta)
    ratio.replace_all_uses_with(given)
    graph.eliminate_dead_code()
    graph.erase_node(graph.find_nodes(op="placeholder")[2])
    with pytest.warns(RuntimeWarning, match="a size that no input tells"):
        compiled = inductor.compile(torch.fx.GraphModule({}, graph), [7 / 3, torch.ones(4)])
    assert torch.equal(compiled(0.5, torch.ones(4))[0], torch.full((4,), 0.5))


def test_a_division_by_a_number_that_may_be_zero_is_left_to_python(capfd):
    divide = lambda x: x * (7 // x.long().sum().item())
    gm = make_fx(divide, tracing_mode="symbolic")(torch.ones(4))
    with pytest.warns(RuntimeWarning, match="a division by .*, which may be 0"):
        compiled = inductor.compile(gm, [torch.ones(4)])
    for total in (2, -3):
        x = torch.tensor([0.0, 0.0, 0.0, total])
        torch.testing.assert_close(compiled(x)[0], divide(x))
    with pytest.raises(ZeroDivisionError):
        compiled(torch.zeros(4))
    assert not capfd.readouterr().err


def test_a_number_divided_by_part_of_a_size_is_left_to_python():
    gm = make_fx(lambda x: x * (7 // (x.shape[0] // 4)), tracing_mode="symbolic")(torch.ones(8))
    with pytest.warns(RuntimeWarning, match="a division by .*, which may be 0"):
        compiled = inductor.compile(gm, [torch.ones(8)])
    with pytest.raises(ZeroDivisionError):
        compiled(torch.ones(3))
