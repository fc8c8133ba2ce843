"""A vision transformer (Dosovitskiy et al., 2020) and a U-Net (Ronneberger et al., 2015); random weights."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from models.language import Block


class VisionTransformer(nn.Module):
    """Patches as tokens, one more for the class."""

    def __init__(
        self, image: int = 224, patch: int = 16, width: int = 768, heads: int = 12, depth: int = 12, classes: int = 1000
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def pair(inner: int, outer: int) -> nn.Sequential:
    """Two convolutions, each with norm and activation."""
    layers: list[nn.Module] = []
    for channels in (inner, outer):
        layers += [nn.Conv2d(channels, outer, 3, padding=1), nn.GroupNorm(4, outer), nn.SiLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Down by pooling, up by transposed convolutions, with what was seen on the way down."""

    def __init__(self, channels: int = 3, classes: int = 2, width: int = 32, levels: int = 4) -> None:
        super().__init__()
        sizes = [width << level for level in range(levels)]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip([channels, *sizes], sizes, strict=False))
        self.lift = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in itertools.pairwise(sizes))
        self.up = nn.ModuleList(pair(2 * size, size) for size in sizes[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = []
        for level, part in enumerate(self.down):
            x = part(x if level == 0 else nn.functional.max_pool2d(x, 2))
            seen.append(x)
        for lift, part, beside in zip(self.lift[::-1], self.up[::-1], seen[-2::-1], strict=True):
            x = part(torch.cat((beside, lift(x)), 1))
        return self.head(x)
