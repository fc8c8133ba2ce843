import torch


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y * 3

    @staticmethod
    def backward(ctx, gx, gy):
        return None, None


def make():
    return {"x": torch.tensor(2.0), "y": torch.tensor(1.0, requires_grad=True)}


def program(x, y):
    c = x * y
    return c, Pair.apply(c, x)


def after(r, s):
    (r[0] + r[1][0]).backward()


def change(s, call):
    pass
