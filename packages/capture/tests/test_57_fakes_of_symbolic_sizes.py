"""What is said of a convolution's results before they are computed is what they turn out to be."""

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from capture.operators.fake_kernels_of_dynamic_sizes import SymbolicSizesMode

IMAGES = {
    "plain": torch.nn.Conv2d(4, 6, 3),
    "by channel": torch.nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=4, bias=False),
    "wide": torch.nn.Conv2d(4, 4, 7, padding=3, groups=4),
    "of points": torch.nn.Conv2d(4, 6, 1),
    "dilated": torch.nn.Conv2d(4, 6, 3, dilation=2),
    "back": torch.nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1),
}


def symbolic_fake(mode, tensor, dims):
    sizes = [DimDynamic.DYNAMIC if dim in dims else DimDynamic.STATIC for dim in range(tensor.dim())]
    context = StatelessSymbolicContext(dynamic_sizes=sizes, dynamic_strides=[DimDynamic.INFER_STRIDE] * tensor.dim())
    return mode.from_tensor(tensor, symbolic_context=context, static_shapes=False)


def run(module, parameters, x):
    result = torch.func.functional_call(module, parameters, (x,))
    return result, *torch.autograd.grad(result.square().sum(), (x, *parameters.values()))


def compare(module, x):
    parameters = dict(module.named_parameters())
    real = run(module, parameters, x.requires_grad_())
    mode = SymbolicSizesMode(shape_env=ShapeEnv())
    fakes = {name: mode.from_tensor(value, static_shapes=True) for name, value in parameters.items()}
    with mode:
        told = run(module, fakes, symbolic_fake(mode, x, (0, 2)))
    for expected, found in zip(real, told, strict=True):
        assert (tuple(map(int, found.shape)), found.dtype) == (expected.shape, expected.dtype)
        longer = [dim for dim, size in enumerate(expected.shape) if size > 1]  # the others are stepped over by nobody
        assert [int(found.stride(dim)) for dim in longer] == [expected.stride(dim) for dim in longer]
    return mode.shape_env


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [9, 24])
@pytest.mark.parametrize("last", [(), ("x",), ("weight",), ("x", "weight")], ids=lambda last: "+".join(last) or "plain")
def test_images(name, dtype, batch, last):
    module = IMAGES[name].to(dtype, memory_format=torch.channels_last if "weight" in last else torch.contiguous_format)
    x = torch.randn(batch, 4, 13, 12, dtype=dtype)
    env = compare(module, x.contiguous(memory_format=torch.channels_last) if "x" in last else x)
    assert "< 16" not in str([guard.expr for guard in env.guards])


@pytest.mark.parametrize("module", [
    torch.nn.Conv1d(4, 6, 3), torch.nn.ConvTranspose1d(4, 6, 3, stride=2), torch.nn.Conv3d(4, 6, (1, 3, 2)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("batch", [2, 24])
def test_lines_and_volumes(module, batch):
    sides = (13,) if isinstance(module.kernel_size, tuple) and len(module.kernel_size) == 1 else (5, 6, 7)
    compare(module, torch.randn(batch, 4, *sides))
    compare(module, torch.randn(batch, *sides, 4).movedim(-1, 1) if len(sides) == 1 else torch.randn(batch, 4, *sides))
