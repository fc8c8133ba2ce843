import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def make():
    w = torch.ones(2, requires_grad=True)
    return {"w": w, "y": w * 2, "x": torch.ones(2)}


def program(y, w, x):
    c = w * 3
    h = x + 1
    return Double.apply(y), c, Double.apply(c), h.detach().requires_grad_(), h


def after(r, s):
    (r[0] + r[1] + r[2]).sum().backward()


def change(s, call):
    s.y = s.w * 2
