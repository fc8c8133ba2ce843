"""Images resized to sizes that are computed from theirs: fused kernels where sizes vary, and eager's values."""

import pytest
import torch
import torch.nn.functional as F

import compile_api

MODES = ("nearest", "bilinear")
SIZES = ((32, 32), (32, 40), (57, 91))
WANTED = {
    "a quotient": lambda x, mode: F.interpolate(x, (x.shape[-2] // 8, x.shape[-1] // 8), mode=mode),
    "corners": lambda x, mode: F.interpolate(x, (x.shape[-2] // 3, x.shape[-1] // 5), mode=mode, align_corners=True),
    "a factor": lambda x, mode: F.interpolate(x, scale_factor=0.125, mode=mode, recompute_scale_factor=True),
}


@pytest.mark.filterwarnings("ignore:graph_.* runs operator by operator")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wanted", WANTED)
def test_images_of_computed_sizes(wanted, mode):
    if wanted == "corners" and mode == "nearest":
        return
    program = compile_api.compile(lambda x: WANTED[wanted](x, mode))
    for size in SIZES:
        x, other = (torch.linspace(0, 1, 6 * size[0] * size[1]).sin().view(2, 3, *size).requires_grad_() for _ in "xy")
        result, expected = program(x), WANTED[wanted](other, mode)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), z)[0] for y, z in ((result, x), (expected, other))))
    stages = {refused.stage for refused in compile_api.report(program).refused}
    assert stages <= ({"inductor"} if wanted == "a factor" else set())  # whose size is a float rounded down
