import torch
from torch import nn


def make():
    y = torch.tensor([1.0, 1.0])
    return {"y": y, "lin": nn.Linear(3, 3), "items": [2]}


def program(y, lin, items):
    a = torch.einsum("i,i->", y, y)
    a.set_(lin.weight)
    items.append(y.sum())


def after(r, s):
    pass


def change(s, call):
    pass
