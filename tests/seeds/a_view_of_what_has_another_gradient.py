import torch


def make():
    x = torch.tensor([]).reshape(0, 3)
    w = torch.tensor([2.0, 1.0, 1.0, 1.0], requires_grad=True)
    y = w[:1]
    return {"x": x, "y": y, "w": w}


def program(x, y, w):
    b = torch.sum(x, 0, out=x)
    x.relu_()
    torch.autograd.backward(y)
    w.data = b


def after(r, s):
    pass


def change(s, call):
    pass
