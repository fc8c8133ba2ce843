"""The example models, tiny: the same results and gradients as eager, in inference and training, as one graph."""

import copy
import sys
from pathlib import Path

import pytest
import torch

import compile_api

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from models.zoo import ZOO


@pytest.mark.parametrize("name", ZOO)
def test_inference(name):
    model, inputs = ZOO[name].tiny().eval(), ZOO[name].inputs(2, True)
    compiled = compile_api.compile(model, fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*inputs), model(*inputs), rtol=1e-3, atol=1e-4)
    assert compile_api.report(compiled).kernels


@pytest.mark.parametrize("name", ZOO)
def test_training(name):
    """In float64: batch norms of so few numbers magnify rounding."""
    model = ZOO[name].tiny().double().train()
    inputs = [x.double() if x.is_floating_point() else x for x in ZOO[name].inputs(4, True)]
    twin = copy.deepcopy(model)
    losses = [call(*inputs).square().mean() for call in (model, compile_api.compile(twin, fullgraph=True))]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0])
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["resnet18", "llama", "unet"])
def test_training_in_another_runtime(name):
    if "onnxrt" not in compile_api.list_backends():
        pytest.skip("onnxrt needs onnx and onnxruntime")
    model, inputs = ZOO[name].tiny().eval(), ZOO[name].inputs(2, True)
    twin = copy.deepcopy(model)
    losses = [call(*inputs).square().mean() for call in (model, compile_api.compile(twin, backend="onnxrt"))]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(twin.parameters(), model.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() <= 1e-3 * theirs.grad.norm() + 1e-5
