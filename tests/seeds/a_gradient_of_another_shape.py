"""A tensor that got other memory, while its gradient kept its shape."""

import torch


def make():
    x = torch.tensor([1.0, 1.0])
    w = torch.tensor([1.0])
    w.grad = torch.ones_like(w)
    return {"x": x, "w": w}


def program(x, w):
    return w.set_(x)


def after(r, s):
    pass


def change(s, call):
    pass
