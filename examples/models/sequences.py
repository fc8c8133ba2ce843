"""A speech model in the arrangement of Whisper (Radford et al., 2022) and an LSTM over tokens; random weights."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from models.language import Block


class Whisper(nn.Module):
    """Two convolutions and blocks over a spectrogram; a decoder that attends to them."""

    def __init__(
        self,
        bands: int = 80,
        vocabulary: int = 51865,
        width: int = 384,
        heads: int = 6,
        depth: int = 4,
        length: int = 448,
    ) -> None:
        super().__init__()
        self.width = width
        self.conv1, self.conv2 = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.encoder = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.decoder = nn.ModuleList(Block(width, heads, causal=True, cross=True) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def forward(self, sound: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        memory = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2)
        memory = memory + self._waves(memory.shape[1], memory)
        for block in self.encoder:
            memory = block(memory)
        memory = self.norms[0](memory)
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for block in self.decoder:
            x = block(x, memory)
        return self.norms[1](x) @ self.tokens.weight.T

    def _waves(self, length: int, like: torch.Tensor) -> torch.Tensor:
        half = self.width // 2
        slow = torch.exp(torch.arange(half, device=like.device) * (-math.log(10000) / (half - 1)))
        angles = torch.arange(length, device=like.device)[:, None] * slow
        return torch.cat((angles.sin(), angles.cos()), 1).to(like.dtype)


class Lstm(nn.Module):
    """Tokens, two recurrent layers in both directions, a class."""

    def __init__(self, vocabulary: int = 10000, width: int = 256, classes: int = 5) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.recurrent = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.recurrent(self.tokens(tokens))
        return self.head(states.mean(1))
