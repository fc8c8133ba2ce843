import torch


def make():
    w = torch.ones(3, requires_grad=True)
    return {"x": torch.zeros(3), "w": w}


def program(x, w):
    y = x.data
    z = x.detach()[1:]
    print(end="")
    y.add_(w)
    z.mul_(2)
    return y


def after(r, s):
    r.sum().backward()


def change(s, call):
    pass
