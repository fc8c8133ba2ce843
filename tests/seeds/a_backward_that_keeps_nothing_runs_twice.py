import torch


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return (x, y)

    @staticmethod
    def backward(ctx, gx, gy):
        return (None, gy)


def make():
    w = torch.tensor(1.0, requires_grad=True)
    items = 2
    return {"w": w, "items": items}


def program(w, items):
    t = items
    u = w
    _, a = Pair.apply(t, w)
    a.backward()
    return [t, u, a]


def after(r, s):
    torch.autograd.grad(r[2], s.w)


def change(s, call):
    pass
