"""Steps of torch's optimizers become graphs, and move parameters as eager does."""

import pytest
import torch

import capture


def steps_of(made, wrap):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 4), (5,))]
    optimizer = made(parameters)
    step = wrap(lambda: optimizer.step())
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        step()
    return parameters


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), id="sgd"),
        pytest.param(lambda p: torch.optim.Adam(p, lr=1e-3), id="adam"),
        pytest.param(lambda p: torch.optim.AdamW(p, lr=1e-3, amsgrad=True), id="adamw"),
    ],
)
def test_a_step_is_captured_whole(made):
    log = capture.Log()
    found = steps_of(made, capture.optimize("eager", strict=True, log=log))
    assert not [record for record in log.records() if isinstance(record, capture.BreakRecord)]
    for parameter, expected in zip(found, steps_of(made, lambda step: step), strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-6, atol=1e-7)
