"""Strides that a program asks for within a graph are those that torch's kernels give, not those of its fakes."""

import pytest
import torch
import torch.nn.functional as F

import capture

X, Y = torch.rand(5, 1, 6).permute(2, 1, 0), torch.rand(5, 6).t() + 1  # (6, 1, 5) and (6, 5), turned around
ROWS = torch.rand(2, 4, 3).transpose(1, 2)
IMAGE = torch.rand(2, 4, 4, 6).contiguous(memory_format=torch.channels_last)
NAMES = "add", "copysign", "floor_divide", "heaviside", "logaddexp", "logical_and", "logical_xor", "pow", "xlogy"
CASES = {
    **{name: lambda name=name: getattr(torch, name)(X, Y) for name in NAMES},
    "a number": lambda: torch.copysign(Y, torch.tensor(-1.0)),
    "a number to a power": lambda: 2.0**Y,
    "div": lambda: torch.div(X, Y, rounding_mode="trunc"),
    "in rows": lambda: torch.xlogy(ROWS, ROWS[0]),
    "batch norm": lambda: F.batch_norm(ROWS, None, None, training=True),
    "normal": lambda: torch.normal(ROWS, ROWS),
    "one_hot": lambda: F.one_hot(Y.long(), 3),
    "channel_shuffle": lambda: F.channel_shuffle(IMAGE, 2),
    "max_unpool2d": lambda: F.max_unpool2d(*F.max_pool2d(IMAGE, 2, return_indices=True), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_strides_are_those_of_the_kernel(name):
    def asked():
        made = CASES[name]()
        return made.stride(), made.is_contiguous(), (made.flip(0) * 2).stride()

    assert capture.optimize("eager")(asked)() == asked()
