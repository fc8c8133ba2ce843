"""Inference mode that begins and ends in a compiled function."""

import pytest
import torch

import compile_api


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self) -> None:
        self.count.add_(1)
        self.count = self.count + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_buffer_becomes_a_tensor_of_inference_mode(backend: str) -> None:
    def count(model: Counting) -> None:
        with torch.inference_mode():
            model()

    model, compiled = Counting(), compile_api.compile(count, backend=backend)
    for _ in range(3):
        compiled(model)
    assert model.count.item() == 6
    assert len(compile_api.report(compiled).captured) == 2
