"""A mean over what data picked: graphs divide by the count, and leave a count of zero to Python."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import compile_api

LOSSES = {
    "mse": lambda x, kept: F.mse_loss(x[kept], x[kept].detach() * 2),
    "huber": lambda x, kept: F.huber_loss(x[kept], x[kept].detach() * 3),
    "std": lambda x, kept: x[kept].std(0, correction=0).sum(),
    "one by it": lambda x, kept: x.sum() * (1 / x[kept].shape[0]),
    "by one more": lambda x, kept: x.sum() / (x[kept].shape[0] + 1),
    "half of the rows": lambda x, kept: F.mse_loss(x[len(x) // 2 :], x[len(x) // 2 :].detach() * 3),
}
MASKS = [[1, 0, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 1, 0]]


@pytest.mark.parametrize("loss", LOSSES)
def test_they_are_compiled(loss):
    compiled = compile_api.compile(LOSSES[loss])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mask in MASKS:
            torch.testing.assert_close(outcome(compiled, mask), outcome(LOSSES[loss], mask))
    assert not compile_api.report(compiled).refused


@pytest.mark.parametrize("loss", ["mse", "one by it"])
def test_nothing_picked_is_as_in_eager(loss):
    """Effects are there once; Python raises where the program divides, and kernels do not."""
    seen = []

    def program(x, kept):
        seen.append(len(kept))
        x.data.add_(1)
        return LOSSES[loss](x, kept)

    compiled = compile_api.compile(program)
    for mask in MASKS:
        outcome(compiled, mask)
    seen.clear()
    (*expected, error), (*actual, own) = outcome(program, [0, 0]), outcome(compiled, [0, 0])
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert own == error
    assert seen == [2, 2]
    assert not compile_api.report(compiled).refused


def outcome(run, mask):
    x = torch.linspace(-1, 2, 2 * len(mask)).view(-1, 2).requires_grad_()
    loss, error = torch.zeros(()), ""
    try:
        loss = run(x, torch.tensor(mask) > 0)
        loss.backward()
    except ZeroDivisionError as raised:
        error = str(raised)
    return loss.detach(), x.grad, x.detach(), len(error)
