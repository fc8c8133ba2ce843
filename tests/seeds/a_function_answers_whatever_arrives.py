# A function whose backward answers with what it saved.
import torch


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors


def make():
    return {"w": torch.tensor(3.0, requires_grad=True)}


def program(w):
    return Own.apply(w), w * 1.0


def after(r, s):
    r[1].backward()


def change(s, call):
    pass
