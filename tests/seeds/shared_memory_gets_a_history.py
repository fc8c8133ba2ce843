import torch


def make():
    x = torch.tensor([[1.0, 2.0, 3.0]])
    return {"x": x, "y": x.t(), "w": torch.tensor([[2.0]], requires_grad=True)}


def program(x, y, w):
    total = x.sum() * w
    y[1:] = w
    return total, x * 2


def after(r, s):
    r[1].sum().backward()


def change(s, call):
    s.x = torch.ones(1, 3)
    s.y = s.x.t()
