import torch


def make():
    return {"w": torch.ones(1, 1, requires_grad=True)}


def program(w):
    w.sum().backward()
    return w.grad.stride()


def after(r, s):
    pass


def change(s, call):
    s.w.grad = None
