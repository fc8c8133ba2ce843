"""One compilation for all sizes."""

import pytest
import torch
from torch.nn import functional as F

import aotgrad


@pytest.fixture
def counted():
    """`make(fn)` compiles with varying sizes; `make.graphs` counts the graphs that it took."""

    def make(fn, **options):
        def compiler(gm, example_inputs):
            make.graphs += 1
            return aotgrad.run_eagerly(gm, example_inputs)

        return aotgrad.function(fn, forward=compiler, dynamic=True, **options)

    make.graphs = 0
    return make


def check(ours, program, *inputs):
    results, expected = ours(*inputs), program(*inputs)
    torch.testing.assert_close(results, expected)
    leaves = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    if leaves:
        ours_grad = torch.autograd.grad(results.sum(), leaves)
        torch.testing.assert_close(ours_grad, torch.autograd.grad(expected.sum(), leaves))


def test_forward_and_backward_serve_all_sizes(counted):
    program = lambda x, w: F.linear(x, w).reshape(-1, 2).softmax(0).sum(0)
    fn = counted(program)
    for batch in (3, 5, 8):
        check(fn, program, torch.randn(batch, 4), torch.randn(6, 4, requires_grad=True))
    assert counted.graphs == 2


def test_results_whose_dimensions_are_out_of_order(counted):
    program = lambda x: x.sin().t()
    fn = counted(program)
    for rows, columns in ((3, 5), (7, 4)):
        check(fn, program, torch.randn(rows, columns, requires_grad=True))
    assert counted.graphs == 2


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        lambda x: x[x > 0].sum(),
        lambda x: x[x > 0].sin(),
        lambda x: x.index_put((torch.tensor([True, False] * 3),), torch.zeros(())),
        lambda x: (x > 0).nonzero().sum() + x.sum(),
        lambda x: x * x.detach().sum().item(),
        lambda x: torch.repeat_interleave(x, torch.arange(len(x))) * 2,
    ],
)
def test_sizes_that_depend_on_values(program, dynamic):
    fn = aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=dynamic)
    for seed in range(3):
        torch.manual_seed(seed)
        check(fn, program, torch.randn(6, requires_grad=True))


def test_sizes_in_arithmetic(counted):
    program = lambda x: x.mean(0) * (x.shape[0] // 2 + x.shape[1]) + torch.arange(x.shape[1] * 2)[: x.shape[1]]
    fn = counted(program)
    for rows, columns in ((3, 5), (4, 7), (10, 2)):
        check(fn, program, torch.randn(rows, columns, requires_grad=True))
    assert counted.graphs == 2


def test_a_size_that_the_program_branches_on_compiles_again(counted):
    program = lambda x: x * 2 if x.shape[0] > 4 else x * 3
    fn = counted(program)
    for size in (3, 4, 5, 6):
        torch.testing.assert_close(fn(torch.ones(size)), program(torch.ones(size)))
    assert counted.graphs == 2


def test_views_and_sizes_in_outputs(counted):
    program = lambda x: ((y := x * 2).view(-1), y, x.shape[0] * 2, x[1:])
    fn = counted(program)
    for size in (3, 6):
        x = torch.randn(size, 4, requires_grad=True)
        ours, theirs = fn(x), program(x)
        assert ours[2] == theirs[2]
        torch.testing.assert_close(ours, theirs)
    assert counted.graphs == 1


def test_views_that_share_memory_in_outputs(counted):
    program = lambda x: x.exp().view(x.shape[0], 2, 2).unbind(1)
    fn = counted(program)
    for size in (3, 6):
        x = torch.randn(size, 4)
        torch.testing.assert_close(fn(x), program(x))
    assert counted.graphs == 1


def test_mutation_with_varying_sizes(counted):
    program = lambda x: x[:, 0].add_(x.shape[0])
    fn = counted(program)
    for size in (3, 6):
        ours, theirs = torch.zeros(size, 4), torch.zeros(size, 4)
        torch.testing.assert_close(fn(ours), program(theirs))
        torch.testing.assert_close(ours, theirs)


def test_symbolic_integers_are_inputs_of_the_graph():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.randn(6, 4), static_shapes=False).requires_grad_()
    gm = torch.fx.symbolic_trace(lambda n, x: (x * x)[: n // 2].sum(0) * n)
    seen = []
    fn = aotgrad.compile(
        gm, [fake.shape[0], fake], forward=lambda gm, inputs: seen.append(gm) or aotgrad.run_eagerly(gm, inputs)
    )
    for size in (6, 10):
        x = torch.randn(size, 4, requires_grad=True)
        (ours,) = fn(size, x)
        check(lambda x: ours, lambda x: (x * x)[: size // 2].sum(0) * size, x)
    assert len(seen) == 2


def test_batch_norm_in_training(counted):
    def program(x, mean, var, weight):
        return F.batch_norm(x, mean, var, weight, training=True)

    fn = counted(program)
    for batch in (4, 6):
        x, weight = torch.randn(batch, 3), torch.ones(3, requires_grad=True)
        ours, theirs = (torch.zeros(3), torch.ones(3)), (torch.zeros(3), torch.ones(3))
        torch.testing.assert_close(fn(x, *ours, weight), program(x, *theirs, weight))
        torch.testing.assert_close(ours, theirs)
    assert counted.graphs == 1


def test_every_size_in_the_graphs_knows_its_value(graphs_of):
    program = lambda x, w: ((x @ w).view(-1)[: x.shape[0] * 2 + 1] * (x.shape[0] // 2)).sum()
    inputs = torch.randn(6, 4), torch.randn(4, 8, requires_grad=True)
    for graph in graphs_of(program, *inputs, dynamic=True):
        assert all(node.meta["val"] is not None for node in graph.nodes if node.op in ("placeholder", "call_function"))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: x.exp() * (y.shape[0] - 1),
        lambda x, y: (x.sum() * torch.ones(x.shape[0] + y.shape[0])).exp(),
        lambda x, y: F.pad(x, (y.shape[0] + 1, 0)).exp(),
    ],
)
def test_backward_is_given_every_size_that_it_speaks_of(program):
    halves = []

    def compiler(gm, example_inputs):
        halves.append(gm)
        return aotgrad.run_eagerly(gm, example_inputs)

    fn = aotgrad.function(program, forward=compiler, dynamic=True)
    for a, b in ((4, 5), (6, 3)):
        check(fn, program, torch.randn(a, requires_grad=True), torch.randn(b))
    backward = halves[1]
    told = {str(node.meta["val"]) for node in backward.graph.find_nodes(op="placeholder")}
    for node in backward.graph.nodes:
        for size in getattr(node.meta.get("val"), "shape", ()):
            assert isinstance(size, int) or {str(symbol) for symbol in size.node.expr.free_symbols} <= told


def test_a_negative_number_to_the_power_of_a_size():
    """As the text of the graph has it, too."""
    program = lambda x: x * pow(-2, x.shape[0])
    fn = aotgrad.function(program, forward=lambda gm, _: lambda given: gm(*given), dynamic=True)
    for size in (3, 4, 5):
        check(fn, program, torch.ones(size))


def test_a_warning_speaks_of_numbers():
    call = aotgrad.function(torch.nn.functional.mse_loss, forward=aotgrad.run_eagerly, dynamic=True)
    with pytest.warns(
        UserWarning, match=r"torch.Size\(\[7, 1\]\)\) that is different to the input size \(torch.Size\(\[7\]\)"
    ):
        call(torch.ones(7), torch.ones(7, 1))


def test_batch_norm_of_nothing():
    norm = torch.nn.BatchNorm1d(3)
    result = aotgrad.module(norm, forward=aotgrad.run_eagerly)(torch.ones(0, 3))
    assert result.shape == (0, 3)
    assert norm.running_mean.tolist() == [0.0] * 3


LABELS = torch.tensor([[0, 1, -1, 0]])  # what stands behind -1 is no label


@pytest.mark.parametrize(
    "program",
    [
        lambda x: F.multilabel_margin_loss(x, LABELS.expand(len(x), 4)),
        lambda x: F.multilabel_margin_loss(x, LABELS.expand(len(x), 4), reduction="none"),
        lambda x: x * (F.dropout(x, 0.5, training=False) is x),
    ],
)
def test_operators_that_torch_has_a_wrong_rule_for_where_sizes_vary(counted, program):
    fn = counted(program)
    for batch in (3, 5):
        x = torch.randn(batch, 4)
        torch.testing.assert_close(fn(x), program(x))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_not_interpolated_in_floats(counted, mode):
    fn = counted(lambda x: F.interpolate(x, size=(7, 9), mode=mode))
    with pytest.raises(aotgrad.Unsupported, match="bytes"):
        fn(torch.randint(0, 256, (1, 2, 5, 6), dtype=torch.uint8))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_result_goes_backward_after_what_another_one_read_was_written(dynamic):
    """As in a step of a GAN: the critic's weights are updated before the generator's loss goes backward."""

    def program(x, g, d):
        fake = torch.tanh(x @ g)
        return fake, torch.tanh(fake.detach() @ d).mean() + torch.tanh(x @ d).sum() / x.shape[0]

    def gradients(function, count):
        x, g, d = torch.ones(count, 3), *(torch.full((3, 3), 0.1, requires_grad=True) for _ in "gd")
        fake, loss = function(x, g, d)
        loss.backward()
        with torch.no_grad():
            d.sub_(d.grad)
        torch.tanh(fake @ d).mean().backward()
        return g.grad, d.grad

    ours = aotgrad.function(program, forward=aotgrad.run_eagerly, dynamic=dynamic, partition=aotgrad.min_cut_partition)
    for count in (5, 6, 4):
        torch.testing.assert_close(gradients(ours, count), gradients(program, count))
