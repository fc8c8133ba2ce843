import torch
from torch import nn


def make():
    return {"lin": nn.Linear(3, 2)}


def program(lin):
    with torch.no_grad():
        lin.weight.chunk(2)[0].mul_(2)
    return lin.weight * 2


def after(r, s):
    r.sum().backward()


def change(s, call):
    pass
