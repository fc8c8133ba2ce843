import torch


def make():
    return {"x": torch.ones(3, 2, requires_grad=True) * 2, "n": torch.zeros(2)}


def program(x, n):
    try:
        torch.matmul(torch.ones(3), x, out=n)
    except RuntimeError:
        return n * 2
    return n


def after(r, s):
    pass


def change(s, call):
    pass
