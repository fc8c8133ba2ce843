import torch
from torch import nn


def make():
    return {"y": torch.ones(1, 3), "linear": nn.Linear(3, 3), "count": torch.zeros(())}


def program(y, linear, count):
    x = linear(y)
    count.add_(1)
    x.retain_grad()
    x += count
    return x


def after(r, s):
    r.sum().backward()


def change(s, call):
    pass
