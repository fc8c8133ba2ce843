"""Every example model by name: at its public size, and tiny for trying; inputs made of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from models.language import T5, Bert, Gpt2, Llama
from models.resnet import resnet18, resnet50, resnext101_32x8d
from models.sequences import Lstm, Whisper
from models.vision import UNet, VisionTransformer


@dataclass(frozen=True)
class Example:
    """``full`` and ``tiny`` make the model; ``inputs`` gets the batch size and whether it is the tiny one."""

    full: Callable[[], nn.Module]
    tiny: Callable[[], nn.Module]
    inputs: Callable[[int, bool], tuple[torch.Tensor, ...]]


def images(full: int, tiny: int) -> Callable[[int, bool], tuple[torch.Tensor, ...]]:
    def make(batch: int, is_tiny: bool) -> tuple[torch.Tensor, ...]:
        size = tiny if is_tiny else full
        return (torch.randn(batch, 3, size, size),)

    return make


def tokens(count: int = 1) -> Callable[[int, bool], tuple[torch.Tensor, ...]]:
    def make(batch: int, is_tiny: bool) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randint(0, 100, (batch, 12 if is_tiny else 128)) for _ in range(count))

    return make


def sound_and_tokens(batch: int, is_tiny: bool) -> tuple[torch.Tensor, ...]:
    frames, bands = (40, 8) if is_tiny else (3000, 80)
    return torch.randn(batch, bands, frames), torch.randint(0, 100, (batch, 12))


ZOO: Mapping[str, Example] = {
    "resnet18": Example(resnet18, lambda: resnet18(10, 8), images(224, 40)),
    "resnet50": Example(resnet50, lambda: resnet50(10, 8, (1, 1, 1, 1)), images(224, 40)),
    "resnext101_32x8d": Example(
        resnext101_32x8d, lambda: resnext101_32x8d(10, 64, (1, 1, 1, 1)), images(224, 40)
    ),
    "bert": Example(Bert, lambda: Bert(100, 32, 2, 2, 16), tokens()),
    "gpt2": Example(Gpt2, lambda: Gpt2(100, 32, 2, 2, 16), tokens()),
    "llama": Example(Llama, lambda: Llama(100, 32, 4, 2, 2), tokens()),
    "vit": Example(VisionTransformer, lambda: VisionTransformer(32, 8, 32, 2, 2, 10), images(224, 32)),
    "t5": Example(T5, lambda: T5(100, 32, 2, 2), tokens(2)),
    "whisper": Example(Whisper, lambda: Whisper(8, 100, 32, 2, 2, 16), sound_and_tokens),
    "lstm": Example(Lstm, lambda: Lstm(100, 16), tokens()),
    "unet": Example(UNet, lambda: UNet(width=8, levels=3), images(256, 32)),
}  # fmt: skip
