import torch


def make():
    x = torch.tensor(1.0)
    return {"x": x, "y": x.expand(2)}


def program(x, y):
    c = y.grad is None
    x.add_(1)
    return c


def after(r, s):
    pass


def change(s, call):
    s.x.requires_grad_(not s.x.requires_grad)
