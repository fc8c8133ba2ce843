import torch


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y * 3

    @staticmethod
    def backward(ctx, gx, gy):
        return None, gy


def make():
    w = torch.tensor(1.0, requires_grad=True)
    return {"y": w * 2, "w": w, "v": torch.ones(3, requires_grad=True)}


def program(y, v):
    return Pair.apply(y, v)[1]


def after(r, s):
    s.out = torch.autograd.grad(r.sum(), s.w, allow_unused=True)


def change(s, call):
    pass
