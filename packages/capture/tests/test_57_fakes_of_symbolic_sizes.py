"""What is said of a convolution's results and of views before they are computed is what they turn out to be."""

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


LAID_OUT = {
    "plain": lambda: torch.randn(6, 8, 12),
    "transposed": lambda: torch.randn(8, 6, 12).transpose(0, 1),
    "with gaps": lambda: torch.randn(6, 9, 13)[:, :8, :12],
    "rows with gaps": lambda: torch.randn(6, 9, 12)[:, :8],
    "an offset": lambda: torch.randn(9, 8, 12)[3:],
    "expanded": lambda: torch.randn(6, 1, 12).expand(6, 8, 12),
}
SHAPES = (
    lambda a, b, c: (a, b // 4, 4, c), lambda a, b, c: (a, b // 4, 4, c // 4, 4), lambda a, b, c: (-1, b * c),
    lambda a, b, c: (a * b, c), lambda a, b, c: (-1,), lambda a, b, c: (1, a, b, 1, c, 1), lambda a, b, c: (-1, 4, c),
    lambda a, b, c: (a * c, b), lambda a, b, c: (a, b, c // 5, 5), lambda a, b, c: (a, b, -1, c // 4),
    lambda a, b, c: (a // 7, -1), lambda a, b, c: (a, b, c),
)  # fmt: skip


def viewed(x, shape):
    try:
        return x.view(shape(*x.shape))
    except RuntimeError:
        return None


@pytest.mark.parametrize("laid_out", LAID_OUT)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dims", [(0, 1, 2), (1,), (0, 2)])
def test_views(laid_out, shape, dims):
    x = LAID_OUT[laid_out]()
    mode = SymbolicSizesMode(shape_env=ShapeEnv())
    real = viewed(x, shape)
    fake = symbolic_fake(mode, x, dims)
    with mode:
        told = viewed(fake, shape) if real is not None else None
        if real is None:  # torch's rules complain with other errors
            with pytest.raises((RuntimeError, ValueError, ZeroDivisionError, IndexError)):
                fake.view(shape(*fake.shape))
            return
    assert tuple(map(int, told.shape)) == real.shape
    assert tuple(map(int, told.stride())) == real.stride()
    assert int(told.storage_offset()) == real.storage_offset()


def test_a_view_has_the_sizes_that_were_asked_for():
    """However often; torch's rule divides what is left, so that sizes grow with each view."""
    mode = SymbolicSizesMode(shape_env=ShapeEnv())
    x = symbolic_fake(mode, torch.randn(2, 24, 40), (1, 2))
    with mode:
        _, height, width = x.shape
        for _ in range(3):
            windows = x.view(2, height // 4, 4, width // 4, 4)
            assert windows.shape[2::2] == (4, 4)
            assert all(size.node.expr.count_ops() <= 3 for size in (windows.shape[1], windows.shape[3]))
            x = windows.view(2, height, width)
    assert len(mode.shape_env.guards) < 10
