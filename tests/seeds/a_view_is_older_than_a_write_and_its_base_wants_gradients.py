import torch


def make():
    return {"y": torch.tensor([1.0, 2.0])}


def program(y):
    b = y[1:]
    y.exp_()
    y.requires_grad_()
    return b


def after(r, s):
    r.sum().backward()


def change(s, call):
    s.y = s.y.detach()
