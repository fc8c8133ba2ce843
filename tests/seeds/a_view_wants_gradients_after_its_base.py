# state.y.grad: None for a value: ('NoneType', 'None') instead of ('Tensor', 'torch.float32', (2,), (1,), False, 'leaf')
"""Made by the search from seed 2080020827."""

import torch


def make():
    x = torch.ones(2)
    return {"x": x, "y": x.view(-1)}


def program(x, y):
    x.requires_grad_()
    y.requires_grad_()
    y.sum().backward()


def after(r, s):
    pass


def change(s, call):
    pass
