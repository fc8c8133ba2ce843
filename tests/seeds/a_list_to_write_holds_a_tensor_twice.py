import torch
from torch import nn


def make():
    w = torch.ones(1, requires_grad=True)
    w.grad = torch.ones(1)
    return {"w": w, "x": torch.ones(3)}


def program(w, x):
    nn.utils.clip_grad_norm_([w, w], 1.0)
    torch._foreach_mul_([x[:2], x[1:]], 2.0)
    torch._foreach_add_([x[:1], x[2:]], 1.0)


def after(r, s):
    pass


def change(s, call):
    pass
