"""First calls of whole models in a process of their own: what `python -m benchmarks.start --models` runs.

    python -m benchmarks.start_models MODEL ours|torch.compile DEVICE

The last line is JSON: seconds on the wall, and of the processors in this process and in the compilers that it starts,
of the import of the compiler and the first two calls, and what a third one takes.  The model has run in eager before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from models.language import Bert, Llama
from models.resnet import resnet18

Target: TypeAlias = Callable[..., torch.Tensor]
Run: TypeAlias = Callable[[Target], object]


def _resnet_training(device: str) -> tuple[Target, Run]:
    return _trained(resnet18().to(device), torch.randn(4, 3, 64, 64, device=device))


def _bert_step(device: str) -> tuple[Target, Run]:
    """Forward, loss, backward and optimizer in one function, as `compile` is asked to take it whole."""
    model = Bert().to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(tokens: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    tokens = torch.randint(0, 30000, (1, 32), device=device)
    return step, lambda call: call(tokens)


def _llama(depth: int, device: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A narrow model whose depth is chosen: equal layers may be compiled once, however many there are."""
    tokens = torch.randint(0, 1000, (2, 32), device=device)
    return Llama(vocabulary=1000, width=64, heads=4, groups=2, depth=depth).to(device), tokens


def _trained(model: torch.nn.Module, inputs: torch.Tensor) -> tuple[Target, Run]:
    """Training without an optimizer: what is compiled is forward and backward."""

    def run(call: Target) -> None:
        model.zero_grad()
        call(inputs).square().mean().backward()

    return model, run


def _inferred(model: torch.nn.Module, inputs: torch.Tensor) -> tuple[Target, Run]:
    """Inference; gradients stay off in this process, which measures nothing else."""
    torch.set_grad_enabled(False)
    return model.eval(), lambda call: call(inputs)


MODELS: dict[str, Callable[[str], tuple[Target, Run]]] = {
    "ResNet-18, training": _resnet_training,
    "BERT-base, whole step": _bert_step,
    "Llama of 2 layers": lambda device: _inferred(*_llama(2, device)),
    "Llama of 2 layers, training": lambda device: _trained(*_llama(2, device)),
    "Llama of 32 layers": lambda device: _inferred(*_llama(32, device)),
    "Llama of 32 layers, training": lambda device: _trained(*_llama(32, device)),
}


def main() -> None:
    name, who, device = sys.argv[1:]
    torch.manual_seed(0)
    target, run = MODELS[name](device)
    if isinstance(target, torch.nn.Module):  # a step makes its optimizer's state in the first call that is measured
        run(target)
    wall, processors = time.perf_counter(), sum(os.times()[:4])
    compiled: Any
    if who == "ours":
        import compile_api

        compiled = compile_api.compile(target, options={"warm_start": True})
    else:
        compiled = torch.compile(target)
    for _ in range(2):
        run(compiled)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = [time.perf_counter() - wall, sum(os.times()[:4]) - processors]
    start = time.perf_counter()
    run(compiled)
    if device == "cuda":
        torch.cuda.synchronize()
    print(json.dumps([*seconds, time.perf_counter() - start]))


if __name__ == "__main__":
    main()
