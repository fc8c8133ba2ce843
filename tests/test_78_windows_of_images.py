"""Attention within windows of images (as in Swin), where the size of the images varies."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import compile_api

SIDE = 4
SIZES = ((2, 32, 32), (2, 24, 40), (2, 30, 44), (3, 50, 38), (3, 34, 60), (1, 32, 32))


class Windows(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift, self.qkv = shift, nn.Linear(8, 24)

    def forward(self, x):
        batch, height, width, channels = x.shape
        x = F.pad(x, (0, 0, 0, -width % SIDE, 0, -height % SIDE))
        high, wide = height + -height % SIDE, width + -width % SIDE
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = x.view(batch, high // SIDE, SIDE, wide // SIDE, SIDE, channels)
        q, k, v = self.qkv(x.permute(0, 1, 3, 2, 4, 5).reshape(-1, SIDE * SIDE, channels)).chunk(3, -1)
        x = ((q @ k.transpose(1, 2)).softmax(-1) @ v).view(batch, high // SIDE, wide // SIDE, SIDE, SIDE, channels)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch, high, wide, channels)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        return x[:, :height, :width].contiguous()


class Blocks(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 3, 2, 1)
        self.blocks = nn.ModuleList(Windows(2 * (index % 2)) for index in range(count))

    def forward(self, x):
        x = self.patches(x).permute(0, 2, 3, 1)
        for block in self.blocks:
            x = x + block(x)
        return x


def trained(model, module, size):
    """The result of an image of this size, and all gradients."""
    numbers = torch.linspace(0, 9, 3 * size[0] * size[1] * size[2], dtype=module.patches.weight.dtype)
    x = numbers.sin().view(size[0], 3, *size[1:]).requires_grad_()
    result = model(x)
    return result, *torch.autograd.grad(result.square().sum(), (x, *module.parameters()))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_results_and_gradients(backend):
    module = Blocks(2).double()
    compiled = compile_api.compile(module, backend=backend, fullgraph=True)
    for size in SIZES:
        torch.testing.assert_close(trained(compiled, module, size), trained(module, module, size))
    report = compile_api.report(compiled)
    assert not report.refused
    # One for the first size, then one for each: images without a rim, with one, any number of them, and a single one.
    assert len(report.captured) == 5


def asked(count, backend, monkeypatch):
    """How many operations there are in all that is asked of sizes for so many blocks, at the second size."""
    questions = set()
    evaluate = ShapeEnv.evaluate_expr

    def noting(self, expression, *args, **options):
        questions.add(expression)
        return evaluate(self, expression, *args, **options)

    module = Blocks(count)
    compiled = compile_api.compile(module, backend=backend, fullgraph=True)
    with monkeypatch.context() as patched:
        patched.setattr(ShapeEnv, "evaluate_expr", noting)
        for size in SIZES[:2]:
            trained(compiled, module, size)
    return sum(question.count_ops() for question in questions)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_asked_of_sizes_does_not_grow_with_each_block(backend, monkeypatch):
    """Sizes of a view are those that the program gave, so that another block asks what the first one did.  Nor are they
    deep: where each was what others left over, there were 12000 operations, which took many seconds."""
    two, four = (asked(count, backend, monkeypatch) for count in (2, 4))
    assert two == four < 2000


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    "program",
    [lambda x: (x.view(-1), x + 1), lambda x: x.view(2, -1) * 2, lambda x: (x.view(-1).mul_(2), x + 1)],
    ids=["unread", "read", "written"],
)
def test_a_view_that_there_is_not_is_refused_at_sizes_that_vary(program, backend):
    """Torch's fake takes a view for possible behind a size of 1, of whatever strides."""
    compiled = compile_api.compile(program, backend=backend)
    for x in (torch.ones(4, 1, 2), torch.ones(4, 1, 6)):
        compiled(x)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        compiled(torch.ones(4, 1, 6).permute(2, 1, 0))
