import torch


def make():
    x = torch.tensor([1.0, 1.0, 1.0])
    w = torch.tensor([2.0, 1.0, 1.0], requires_grad=True)
    y = x[:1]
    return {"x": x, "y": y, "w": w}


def program(x, y, w):
    c = x
    c[None].copy_(w)
    (w * y).sum().backward()


def after(r, s):
    pass


def change(s, call):
    s.x = s.x.detach().clone()
    s.y = s.x[:1]
