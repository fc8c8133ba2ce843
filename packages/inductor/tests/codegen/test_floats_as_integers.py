"""Floats made integers, and floats again: bit for bit as torch makes them, in vectors and behind them."""

import pytest
import torch
from processors import PORTABLE, built_for
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

INTEGERS = (
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
)
VALUES = (
    *(0.0, -0.0, 0.5, -0.5, -0.99, 1.5, -1.5, -1.0, 100.0, -128.0, 200.0, -200.0, 300.0, 40000.0, -40000.0, 70000.0),
    *(2.0**31, -(2.0**31), 3e9, -3e9, 3e9 + 5, -3e9 - 7, 2.0**32, 5e9, 2.0**40 + 77, -(2.0**40) - 77, 2.0**53 - 1),
    *(2.0**62, 2.0**63, -(2.0**63), 1e19, 2.0**64, 1e30, -1e30, float("inf"), float("-inf"), float("nan")),
)


def there_and_back(x):
    """Division tells zeros apart by their signs; the last result never leaves registers as an integer."""
    whole = [x.to(dtype) for dtype in INTEGERS]
    return *whole, *(each.to(x.dtype) for each in whole), 1 / x.int()


def compiled(x, processor):
    found = inductor.compile(make_fx(there_and_back)(x), [x], options=built_for(processor, inductor.Options()))
    assert found.report.failure is None
    return found.call


@pytest.mark.parametrize("processor", [None, PORTABLE])
@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [7, 33])
def test_floats_as_integers(source, size, processor):
    call = compiled(torch.zeros(size, dtype=source), processor)
    for value in VALUES:
        x = torch.full((size,), value, dtype=torch.float64).to(source)
        for found, expected in zip(call([x]), there_and_back(x), strict=True):
            if len(set(map(str, expected.tolist()))) == 1:  # torch's kernels differ in what vectors leave
                assert str(found.tolist()) == str(expected.tolist()), (value, expected.dtype)
