import torch
from torch.utils.checkpoint import checkpoint


def make():
    return {"x": torch.tensor(1.0), "w": torch.tensor(1.0, requires_grad=True)}


def program(x, w):
    h = checkpoint(torch.tanh, w, use_reentrant=True)
    x.requires_grad_()
    h.add_(w)
    h.backward()


def after(r, s):
    pass


def change(s, call):
    pass
