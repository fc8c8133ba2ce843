import torch
from torch import nn


def helper(t, scale=1.0, into=None):
    if t.requires_grad:
        return t * scale
    return t + scale


def make():
    x = torch.tensor([1.0, 1.0, 1.0])
    y = x.view(-1)
    lin = nn.Linear(3, 3)
    return {"x": x, "y": y, "lin": lin}


def program(x, y, lin):
    x.addcmul_(x, lin.bias)
    return helper(y)


def after(r, s):
    pass


def change(s, call):
    pass
