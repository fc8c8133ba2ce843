"""Views, copies and what puts tensors together, against eager: also strides and shared memory."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, fallbacks, kernels, program_of, traced
from reference import run_program
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.ir.program import Launch

VIEWS = {
    "reshape": lambda x: (x.reshape(3, 35) + 1, x.view(-1) * 2, x.flatten(1) - 1, x.unsqueeze(1) + x),
    "permute": lambda x: (x.permute(2, 0, 1) + 1, x.transpose(0, 2) * 2, (x.mT + 1).reshape(-1)),
    "select": lambda x: (x[1] + x[:1, 2], x[-1, -1, -1] * 2, x.select(1, 0) + 1),
    "slice": lambda x: (x[1:, ::2] + 1, x[:, 1:4:2, -3:] * 2, x[5:] + 1, x.narrow(2, 1, 3) + 1),
    "expand": lambda x: (x[:1].expand(4, 5, 7) + 1, x.sum(-1, keepdim=True).expand(3, 5, 7) * 2),
    "squeeze": lambda x: (x[:1].squeeze() + 1, x[:1].squeeze(0) + 1, x.squeeze(1) + 1),
    "split": lambda x: (x.split(2, 1)[2] + 1, x.unbind(0)[1] * 2, x.chunk(3, 2)[1] + 1, x.split([1, 4], 1)[1] + 1),
    "diagonal": lambda x: (x.diagonal(0, 1, 2) + 1, x.diagonal(-1, 0, 1) * 2),
    "flip": lambda x: (x.flip(0), x.flip(1, 2) + 1, x.roll(2, 1), x.roll(-8), x.roll((1, 2), (0, 2))),
    "unfold": lambda x: x.unfold(2, 3, 2) + 1,
    "as_strided": lambda x: (torch.as_strided(x, (2, 3), (7, 2), 1) + 1, torch.as_strided(x, (4, 4), (1, 1)) * 2),
    "repeat": lambda x: (x.repeat(2, 1, 3), x[:1].repeat(2, 2, 1, 1), x.repeat_interleave(2, 1)),
    "pad": lambda x: (F.pad(x, (1, 2, 0, 3), value=0.5), F.pad(x, (-1, 2)), F.pad(x[:, :1], (0, 0, 2, 2))),
    "triangles": lambda x: (x.tril(), x.triu(1), x.tril(-2)),
    "scatters": lambda x: (
        x.slice_scatter(x[:, 1:3] * 2, 1, 1, 3), x.select_scatter(x[0] * 2, 0, -1),
        x.slice_scatter(x[:, ::2] * 2, 1, 0, 5, 2),
        x.diagonal_scatter(x[0, :3].T * 2), x.diagonal_scatter(x[:, :, 0] + 1, 2, 1, 2),
        x.diagonal_scatter(x[:, :2, 0], -3, -2, 2),
    ),
    "cat": lambda x: (torch.cat([x, x * 2], 1), torch.cat([x[:, :1], x, x[:, :0]], 1), torch.stack([x, x + 1], 2)),
    "cat of many": lambda x: torch.cat([x, x + 1, x * 2, x[:, :1], x.exp(), x - 3], 1),
    "cat of dtypes": lambda x: torch.cat([x, (x > 0), x.to(torch.int64)], 0),
    "upsample": lambda x: F.interpolate(x[None], scale_factor=2),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    check(VIEWS[name], torch.randn(3, 5, 7))


@pytest.mark.parametrize("name", ["reshape", "select", "slice", "cat", "flip", "pad", "diagonal"])
def test_views_of_permuted_memory(name):
    check(VIEWS[name], torch.randn(7, 3, 5).permute(1, 2, 0).contiguous().clone(memory_format=torch.preserve_format))
    check(lambda x: VIEWS[name](x.contiguous()), torch.randn(7, 5, 3).permute(2, 1, 0))


CREATION = {
    "linspace of both kinds": lambda x: (x + torch.linspace(0.1, 3, 7), torch.linspace(0, 30, 50, dtype=torch.int64)),
    "full": lambda x: (torch.full((3,), 2.5) + torch.ones(3), torch.zeros_like(x) + x, x.new_full((2,), 7)),
    "arange": lambda x: (
        x + torch.arange(7),
        torch.arange(2, 20, 3),
        torch.arange(5, 0, -2) * 2,
        torch.arange(0, 1, 0.3),
    ),
    "eye": lambda x: (torch.eye(5), torch.eye(3, 5, dtype=torch.int64), x[:, :5] @ torch.eye(5)),
    "one_hot": lambda x: F.one_hot(torch.arange(5) % 3, 4),
    "causal mask": lambda x: x.masked_fill(torch.ones(5, 7, dtype=torch.bool).triu(1), float("-inf")),
    "linspace": lambda x: torch.linspace(0, 1, 7) * x,
    "meshgrid": lambda x: torch.stack(torch.meshgrid(torch.arange(3), torch.arange(4), indexing="ij")),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name):
    check(CREATION[name], torch.randn(5, 7))


def test_outputs_that_are_views_share_memory_with_what_they_are_views_of():
    def function(x):
        y = x + 1
        return x.t(), x[1], y, y.t()

    x = torch.randn(3, 4)
    program = check(function, x)
    transposed, row, y, turned = run_program(program, [x])
    assert transposed.data_ptr() == x.data_ptr()
    assert row.data_ptr() == x[1].data_ptr()
    assert turned.data_ptr() == y.data_ptr()


def test_a_clone_is_a_copy():
    x = torch.randn(4)
    (copy,) = run_program(program_of(lambda x: x.clone(), x), [x])
    assert copy.data_ptr() != x.data_ptr()


def test_views_cost_no_kernel():
    assert kernels(lambda x: x.view(7, 15).t().unsqueeze(0)[:, 1], torch.randn(3, 5, 7)) == 0


def test_a_transposed_result_keeps_eagers_strides():
    check(lambda x: (x.t() + 1, x.t().relu().contiguous()), torch.randn(3, 4))


def test_channels_last_stays():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    program = check(lambda x: (x + 1).relu(), x)
    kernel = next(step.kernel for step in program.steps if isinstance(step, Launch))
    assert len(kernel.axes) == 1


def test_the_graph_keeps_what_the_lowerings_see():
    assert "val" in next(iter(traced(lambda x: x + 1, torch.ones(2)).graph.nodes)).meta


@pytest.mark.parametrize("write", [lambda x: x.select_scatter(x[0], 0, -1), lambda x: x.slice_scatter(x[:1], 0, 1, 2)])
def test_a_window_that_is_replaced_in_part_keeps_its_holes(write):
    for x in (torch.randn(6, 8)[1:5:2, 1:7:2], torch.randn(5, 6)[:, 1:4], torch.randn(4, 3).t()):
        program = inductor.compile(make_fx(write)(x), [x])
        (found,), expected = program.call([x]), write(x)
        torch.testing.assert_close(found, expected)
        assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
    check(lambda x: write(x) + 1, torch.randn(5, 6)[:, 1:4])
    assert not fallbacks(lambda x: write(x) + 1, torch.randn(5, 6)[:, 1:4])
