"""A number that the graph does not need is read behind it, on one of several ways.  Runs beside a thread that waits."""

import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + 0 * x


def make():
    x = torch.tensor([[[-0.4, 0.25, -2.0]], [[0.5, -2.0, 0.1]]])
    w = torch.tensor(
        [
            [-0.75, 0.7, 3.0, 0.0, 1.5, 0.5],
            [-0.75, -0.4, -1.0, 0.3, -2.0, 0.25],
            [1.0, 1.5, 0.1, -0.4, 0.25, 0.1],
            [-1.0, 0.7, 3.0, 0.5, 0.0, -2.0],
            [1.0, 0.3, 0.5, 3.0, 0.0, 1.5],
            [0.3, 0.5, 2.0, 3.0, -0.75, 0.25],
        ],
        requires_grad=True,
    )
    y = torch.tensor([]).reshape(0, 3) + torch.tensor(0.0, requires_grad=True)
    n = 3
    seen = []
    return {"x": x, "y": y, "w": w, "n": n, "seen": seen}


def program(x, y, w, n, seen):
    w.square().mean().backward()
    try:
        b = Double.apply(y)
        seen.append(f"{n}")
        with torch.enable_grad():
            (b * t).sum().backward()  # noqa: F821 - nobody has it
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        seen.append(type(error).__name__)
    c = w.square().sum()
    x.data = w
    with torch.inference_mode():
        h = torch.log1p(y)
    n = n * 2
    c.backward(torch.ones_like(c))
    return [c, h, n]


def after(r, s):
    s.out = torch.autograd.grad(s.y.sum(), s.w, allow_unused=True)


def change(s, call):
    if call == 1:
        s.n += 1
        s.w.grad = None
    else:
        s.n = 0
        s.w.data.mul_(2)
