import torch


def make():
    return {"x": torch.ones(2), "y": torch.ones(2, 3), "i": torch.tensor([[0], [1]])}


def program(x, y, i):
    y[i] = x


def after(r, s):
    pass


def change(s, call):
    pass
