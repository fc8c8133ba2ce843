import torch
from torch import nn


def make():
    return {"x": torch.ones(0, 3), "w": torch.ones(3, requires_grad=True)}


def program(x, w):
    return nn.functional.mse_loss(x, w)


def after(r, s):
    r.backward()


def change(s, call):
    pass
