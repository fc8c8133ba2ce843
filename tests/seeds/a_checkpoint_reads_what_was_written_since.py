import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def make():
    w = torch.tensor([]).reshape(0, 3)
    y = torch.tensor([1.0, 2.0, 1.0])
    lin = nn.Linear(3, 3)
    return {"y": y, "w": w, "lin": lin}


def program(y, w, lin):
    a = checkpoint(lambda t: t * w, lin.bias, use_reentrant=False)
    w[1:] = y
    a.sum().backward()


def after(r, s):
    pass


def change(s, call):
    pass
