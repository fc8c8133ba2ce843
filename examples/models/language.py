"""Language models of four designs, compact: BERT, GPT-2, Llama and T5; random weights, public shapes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Queries of ``x`` to keys and values of ``memory`` (or of ``x``), split into heads."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query = nn.Linear(width, width, bias)
        self.key_value = nn.Linear(width, 2 * width, bias)
        self.out = nn.Linear(width, width, bias)

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None, bias: torch.Tensor | None = None):
        source = x if memory is None else memory
        query = self._split(self.query(x))
        key, value = map(self._split, self.key_value(source).chunk(2, -1))
        mixed = F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias, is_causal=self.causal and bias is None
        )
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    """Attention and a feed-forward part; ``first`` puts the norms before them (GPT-2, ViT), else behind (BERT)."""

    def __init__(
        self, width: int, heads: int, *, causal: bool = False, first: bool = True, cross: bool = False
    ) -> None:
        super().__init__()
        self.first = first
        self.attention = Attention(width, heads, causal=causal)
        self.cross = Attention(width, heads) if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        if not self.first:
            x = self.norms[0](x + self.attention(x))
            return self.norms[1](x + self.feed(x))
        x = x + self.attention(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), memory)
        return x + self.feed(self.norms[1](x))


class Bert(nn.Module):
    """Tokens, positions and segments; blocks; a vocabulary's scores."""

    def __init__(self, vocabulary: int = 30522, width: int = 768, heads: int = 12, depth: int = 12, length: int = 512):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, first=False) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.tokens(tokens) + self.positions(places) + self.segments(torch.zeros_like(tokens)))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Gpt2(nn.Module):
    """Causal blocks; the head shares the embedding's weights."""

    def __init__(self, vocabulary: int = 50257, width: int = 768, heads: int = 12, depth: int = 12, length: int = 1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Each pair of features turned by its position's angle."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class LlamaBlock(nn.Module):
    """Grouped queries with rotary positions, and a gated feed-forward part."""

    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.out = nn.Linear(width, width, False), nn.Linear(width, width, False)
        self.key, self.value = nn.Linear(width, groups * size, False), nn.Linear(width, groups * size, False)
        inner = (8 * width // 3 + 63) // 64 * 64
        self.gate, self.up = nn.Linear(width, inner, False), nn.Linear(width, inner, False)
        self.down = nn.Linear(inner, width, False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        query = rotate(self.query(y).unflatten(-1, (self.heads, -1)).transpose(1, 2), cos, sin)
        key = rotate(self.key(y).unflatten(-1, (self.groups, -1)).transpose(1, 2), cos, sin)
        value = self.value(y).unflatten(-1, (self.groups, -1)).transpose(1, 2)
        repeat = self.heads // self.groups
        key, value = key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Llama's blocks under one rotary table."""

    def __init__(self, vocabulary: int = 32000, width: int = 2048, heads: int = 32, groups: int = 4, depth: int = 22):
        super().__init__()
        self.size = width // heads
        self.tokens, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, False)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups) for _ in range(depth))
        self.norm = nn.RMSNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens)
        places = torch.arange(tokens.shape[1], device=x.device, dtype=torch.float32)
        slow = 10000 ** (-torch.arange(0, self.size, 2, device=x.device) / self.size)
        angles = torch.outer(places, slow).repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class T5Layer(nn.Module):
    """Attention without scaling under a learned bias of distances; in a decoder, attention to the encoder too."""

    def __init__(self, width: int, heads: int, *, cross: bool) -> None:
        super().__init__()
        self.attention = Attention(width, heads, bias=False)
        self.cross = Attention(width, heads, bias=False) if cross else None
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.feed = nn.Sequential(nn.Linear(width, 4 * width, False), nn.ReLU(), nn.Linear(4 * width, width, False))

    def forward(self, x: torch.Tensor, bias: torch.Tensor, memory: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x), bias=bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.feed(self.norms[2](x))


class T5(nn.Module):
    """Encoder and decoder with relative positions in buckets."""

    def __init__(self, vocabulary: int = 32128, width: int = 512, heads: int = 8, depth: int = 6, buckets: int = 32):
        super().__init__()
        self.tokens, self.buckets = nn.Embedding(vocabulary, width), buckets
        self.encoder = nn.ModuleList(T5Layer(width, heads, cross=False) for _ in range(depth))
        self.decoder = nn.ModuleList(T5Layer(width, heads, cross=True) for _ in range(depth))
        self.distances = nn.ModuleList(nn.Embedding(buckets, heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        memory, x = self.tokens(tokens), self.tokens(targets)
        bias = self._bias(tokens.shape[1], self.distances[0], causal=False)
        for layer in self.encoder:
            memory = layer(memory, bias)
        memory = self.norms[0](memory)
        bias = self._bias(targets.shape[1], self.distances[1], causal=True)
        for layer in self.decoder:
            x = layer(x, bias, memory)
        return self.norms[1](x) @ self.tokens.weight.T

    def _bias(self, length: int, table: nn.Embedding, *, causal: bool) -> torch.Tensor:
        places = torch.arange(length, device=table.weight.device)
        distance = places[None, :] - places[:, None]
        near = self.buckets // 4
        far = near + (distance.abs().clamp(min=1) / near).log2().clamp(0, near - 1).long()
        bucket = torch.where(distance.abs() < near, distance.abs(), far) + (distance > 0) * (self.buckets // 2)
        bias = table(bucket).permute(2, 0, 1)[None]
        return bias.masked_fill(distance > 0, float("-inf")) if causal else bias
