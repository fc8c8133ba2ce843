"""ResNet-18 and -50 in the arrangement of He et al. (2015), and ResNeXt-101 of Xie et al. (2016); random weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += self.shortcut(x)
        return self.relu(y)


class Bottleneck(nn.Module):
    """1 x 1 to few channels, 3 x 3 in groups, 1 x 1 back to many, beside a shortcut."""

    def __init__(self, inner: int, outer: int, stride: int = 1, groups: int = 1, group_width: int = 64) -> None:
        super().__init__()
        middle = outer // 4 * group_width * groups // 64
        self.body = nn.Sequential(
            nn.Conv2d(inner, middle, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, 1, groups=groups, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, four stages and a classifier; ``block`` makes one block from its sizes and stride."""

    def __init__(
        self,
        depths: tuple[int, ...] = (2, 2, 2, 2),
        classes: int = 1000,
        width: int = 64,
        block: Callable[[int, int, int], nn.Module] = Block,
        expansion: int = 1,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages: list[nn.Module] = []
        inner = width
        for level, depth in enumerate(depths):
            outer = (width << level) * expansion
            for position in range(depth):
                stages.append(block(inner, outer, 2 if level and not position else 1))
                inner = outer
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(inner, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(self.pool(self.stages(self.stem(x))), 1))


def resnet18(classes: int = 1000, width: int = 64) -> ResNet:
    return ResNet((2, 2, 2, 2), classes, width)


def resnet50(classes: int = 1000, width: int = 64, depths: tuple[int, ...] = (3, 4, 6, 3)) -> ResNet:
    return ResNet(depths, classes, width, Bottleneck, expansion=4)


def resnext101_32x8d(classes: int = 1000, width: int = 64, depths: tuple[int, ...] = (3, 4, 23, 3)) -> ResNet:
    return ResNet(depths, classes, width, partial(Bottleneck, groups=32, group_width=8), expansion=4)
