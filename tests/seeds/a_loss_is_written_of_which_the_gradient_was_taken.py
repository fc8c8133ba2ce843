# A gradient of a gradient, after a write to what the loss was made of and its gradient was not.
import torch


def make():
    return {"x": torch.ones(2), "w": torch.ones(2, requires_grad=True)}


def program(x, w):
    b = torch.func.grad(lambda t: (t * w).sum())(x)
    x += x
    return x, b


def after(r, s):
    torch.autograd.grad(r[1].square().sum(), s.w, create_graph=True)[0].sum().backward()


def change(s, call):
    pass
