"""What torch's own kernels do not implement is asked of torch, by calls that cost nothing."""

import pytest
import torch

from inductor import refused

aten = torch.ops.aten
BOOLEANS, HALVES = torch.ones(2, 3, dtype=torch.bool), torch.ones(3, dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("target", "args", "expected"),
    [
        (aten.argmax.default, (BOOLEANS,), True),
        (aten.threshold.default, (BOOLEANS, 0, 2), True),
        (aten.sum.default, (BOOLEANS,), False),
        (aten.argmax.default, (HALVES,), False),
    ],
)
def test_torch_tells_what_it_does_not_implement(target, args, expected):
    assert refused.is_unimplemented(target, args, {}) is expected


def test_no_large_result_is_made_to_ask(monkeypatch):
    monkeypatch.setattr(refused, "_is_refused", lambda *asked: pytest.fail("asked"))
    assert not refused.is_unimplemented(aten.new_full.default, (HALVES, [50_000, 50_000], 1.0), {})
