"""How results lie in memory, of images in every layout: as eager's kernels lay them out."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import compile_api

IMAGES = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
LAYOUTS = {
    "contiguous": IMAGES,
    "channels last": IMAGES.to(memory_format=torch.channels_last),
    "turned around": IMAGES.reshape(5, 4, 3, 2).permute(3, 2, 1, 0),
    "turned in pairs": IMAGES.reshape(3, 2, 5, 4).permute(1, 0, 3, 2),
    "every second": torch.arange(240.0).reshape(2, 3, 4, 10)[..., ::2],
    "some channels": torch.arange(240.0).reshape(2, 6, 4, 5).to(memory_format=torch.channels_last)[:, :3],
    "expanded": torch.arange(15.0).reshape(1, 3, 1, 5).expand(2, 3, 4, 5),
}
OPERATORS = {
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group norm": lambda x: F.group_norm(x, 1),
    "max_unpool2d": lambda x: F.max_unpool2d(*F.max_pool2d(x, 1, return_indices=True), 1),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "softmax": lambda x: x.softmax(1),
    "roll": lambda x: x.roll(1, 1),
    "roll by nothing": lambda x: x.roll(0, 1),
    "logsigmoid": F.logsigmoid,
    "rrelu": F.rrelu,
    "flip": lambda x: x.flip(1),
    "cat": lambda x: torch.cat([x, x], 1),
    "clone": lambda x: x.clone(),
    "gelu": F.gelu,
    "index_add": lambda x: x.index_add(2, torch.tensor([0]), x[:, :, :1] * 1),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0]), 3.0),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :1] * 2, 1, 0, 1),
    "batch norm in inference": lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 3),
    "cumsum": lambda x: x.cumsum(1),
    "sum": lambda x: x.sum(2),
    "ldexp": lambda x: torch.ldexp(x[:, :1].int(), x.int()),
    "max_pool3d": lambda x: F.max_pool3d(x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2), (1, 2, 2)),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_lie_as_in_eager(layout, backend):
    def program(x):
        return [operator(x) for operator in OPERATORS.values()]

    found = compile_api.compile(program, backend=backend, fullgraph=True)(LAYOUTS[layout])
    expected = program(LAYOUTS[layout])
    wrong = [name for name, a, b in zip(OPERATORS, found, expected, strict=True) if a.stride() != b.stride()]
    assert wrong == []
    torch.testing.assert_close(found, expected)


OF_OTHER_DIMENSIONS = {
    "a table, transposed": torch.rand(3, 4).t(),
    "sequences, channels last": torch.rand(2, 3, 4).permute(0, 2, 1),
    "volumes, channels last": torch.rand(2, 3, 4, 5, 2).to(memory_format=torch.channels_last_3d),
    "volumes, some channels": torch.rand(2, 6, 4, 5, 2).to(memory_format=torch.channels_last_3d)[:, :3],
    "volumes, turned around": torch.rand(2, 5, 4, 3, 2).permute(4, 3, 2, 1, 0),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("layout", [*LAYOUTS, *OF_OTHER_DIMENSIONS])
def test_batch_norms_lie_as_in_eager(layout, recorded, backend):
    """By the statistics of the batch and by fixed ones."""
    x = {**LAYOUTS, **OF_OTHER_DIMENSIONS}[layout]

    def program(x, mean, var):
        with torch.set_grad_enabled(recorded):
            return [F.batch_norm(x, mean, var, training=training) for training in (False, True)]

    inputs = x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])
    found = compile_api.compile(program, backend=backend, fullgraph=True)(*inputs)
    assert [each.stride() for each in found] == [each.stride() for each in program(*inputs)]


def normalised(x, training):
    mean = x.new_zeros(x.shape[1])
    return F.batch_norm(x, mean, mean + 1, training=training)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norms_lie_as_in_eager_where_sizes_vary(training, backend):
    compiled = compile_api.compile(lambda x: normalised(x, training), backend=backend, fullgraph=True)
    for x in (torch.rand(3, 4), torch.rand(3, 5).t(), torch.rand(3, 6).t(), torch.rand(4, 3), torch.rand(5, 7, 3).mT):
        assert compiled(x).stride() == torch.empty_like(x, memory_format=torch.contiguous_format).stride()


SEQUENCES = {
    "contiguous": torch.rand(2, 4, 6),
    "channels last": torch.rand(2, 6, 4).transpose(1, 2),
    "turned around": torch.rand(6, 4, 2).permute(2, 1, 0),
    "every second": torch.rand(2, 8, 12).transpose(1, 2)[:, ::2, ::2],
}
OF_SEQUENCES = {
    "max_pool1d": lambda x: F.max_pool1d(x, 2),
    "max_pool1d with positions": lambda x: F.max_pool1d(x, 2, return_indices=True)[0],
    "avg_pool1d": lambda x: F.avg_pool1d(x, 2),
    "ldexp": lambda x: torch.ldexp(x, torch.ones(x.shape, dtype=torch.int)),
    "index_fill": lambda x: x.index_fill(1, torch.tensor([0]), 3.0),
    "index_fill by a tensor": lambda x: x.index_fill(2, torch.tensor([0]), torch.tensor(3.0)),
    "roll": lambda x: x.roll(1, 1),
    "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, 0),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "pad": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "max_unpool1d": lambda x: F.max_unpool1d(x, torch.arange(x.shape[2]).expand(x.shape) * 2, 2),
    "batch norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    "group norm": lambda x: F.group_norm(x, 1),
    "isin": lambda x: torch.isin(x, x.mT),
    "isin of one": lambda x: torch.isin(x, 1.0),
    "native_dropout_backward": lambda x: torch.ops.aten.native_dropout_backward(x, x > 0.5, 2.0),
    "logsigmoid": F.logsigmoid,
    "rrelu": F.rrelu,
    "rrelu of all the same": lambda x: F.rrelu(x, 0.25, 0.25, training=True),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize("layout", SEQUENCES)
def test_sequences_lie_as_in_eager(layout, followed, backend):
    """And the function is told so while it runs."""

    def program(x):
        made = [operator(x) for operator in OF_SEQUENCES.values()]
        return made, [each.stride() for each in made]

    x = SEQUENCES[layout].detach().requires_grad_(followed)
    (found, told), (expected, _) = compile_api.compile(program, backend=backend, fullgraph=True)(x), program(x)
    strides = [each.stride() for each in expected]
    assert dict(zip(OF_SEQUENCES, told, strict=True)) == dict(zip(OF_SEQUENCES, strides, strict=True))
    assert [each.stride() for each in found] == strides


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_write_to_what_is_flat_reaches_the_result_or_not_as_in_eager(layout, backend):
    """By how the result lies ``reshape`` gives a view or a copy."""

    def program(x):
        made = [F.logsigmoid(x), F.rrelu(x), x.roll(1, 1), x.roll((0, 2), (0, 2))]
        for result in made:
            result.reshape(-1).add_(1)
        return made

    found, expected = (
        compile_api.compile(program, backend=backend, fullgraph=True)(LAYOUTS[layout]),
        program(LAYOUTS[layout]),
    )
    torch.testing.assert_close(found, expected)
    assert [each.stride() for each in found] == [each.stride() for each in expected]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_gradient_of_a_batch_norm_of_turned_sequences_lies_as_its_kernel_lays_it(backend):
    """What goes on with it, here a product, chooses between views and copies by that."""
    weight = torch.rand(6, 6)

    def program(x):
        normed = F.batch_norm((x @ weight).transpose(1, 2), None, None, training=True).transpose(1, 2)
        return (x @ weight + normed) @ weight

    x = torch.rand(3, 5, 6, requires_grad=True)
    gradients = [
        torch.autograd.grad(each(x).square().mean(), x)[0]
        for each in (program, compile_api.compile(program, backend=backend, fullgraph=True))
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("layout", [*LAYOUTS, *OF_OTHER_DIMENSIONS])
def test_a_group_norm_alone_lies_as_it_is_told(layout, backend):
    def program(x):
        normed = F.group_norm(x, 1)
        return normed, normed.stride()

    x = {**LAYOUTS, **OF_OTHER_DIMENSIONS}[layout]
    found, told = compile_api.compile(program, backend=backend, fullgraph=True)(x)
    assert found.stride() == told == program(x)[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_program_is_told_how_grid_samples_lie(backend):
    def program(x, grid):
        sampled = torch.grid_sampler_2d(x, grid, 0, 0, False)
        return sampled * 2, sampled.stride()

    x = torch.randn(2, 5, 3, 4)[..., ::2].transpose(0, 3)
    grid = torch.rand(2, 13, 10, 4)[..., ::2].transpose(0, 3)
    found, expected = (function(x, grid) for function in (compile_api.compile(program, backend=backend), program))
    assert (found[0].stride(), found[1]) == (expected[0].stride(), expected[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("value", [3.0, 3])
def test_what_fills_may_be_of_another_dtype(dtype, value):
    def program(x):
        return x.index_fill(0, torch.tensor([0]), torch.tensor(value))

    x = torch.arange(6).view(2, 3).to(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(compile_api.compile(program)(x), program(x))
