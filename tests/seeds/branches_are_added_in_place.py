import torch
from torch import nn


def make():
    return {"x": torch.ones(2, 3), "a": nn.Linear(3, 3), "b": nn.Linear(3, 3)}


def program(x, a, b):
    o = a(x)
    i = b(x)
    o += i
    loss = o.square().mean()
    loss.backward()
    return loss


def after(r, s):
    s.a.weight.grad.mul_(2)


def change(s, call):
    s.x = torch.ones(call, 3)
