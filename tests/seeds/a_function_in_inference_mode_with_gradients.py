import torch


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return (x, y * 3)

    @staticmethod
    def backward(ctx, gx, gy):
        return (None, None)


def make():
    return {"w": torch.nn.Parameter(torch.ones(3))}


def program(w):
    with torch.inference_mode():
        with torch.enable_grad():
            _, c = Pair.apply(1.0, w)
    return c


def after(r, s):
    pass


def change(s, call):
    pass
