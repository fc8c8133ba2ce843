# What a second backward reaches before the history that is used up has its gradient.
import torch


def make():
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    v = torch.tensor([1.0, 2.0], requires_grad=True)
    return {"w": w, "v": v}


def program(w, v):
    c = (w * w).sum()
    for _ in range(2):
        torch.autograd.backward([v.sum(), c])


def after(r, s):
    pass


def change(s, call):
    s.v.grad = None
