import torch


def make():
    w = torch.tensor([[1.0, 4.0]], requires_grad=True)
    return {"w": w, "y": w[:1], "loss": [w.square().sum()]}


def program(w, y, loss):
    w.data.clamp_(max=2.0)
    loss.pop().backward(retain_graph=True)
    y.data.copy_(y)
    y.register_hook(lambda g: g * 2)
    return w * y


def after(r, s):
    s.loss.append(r.sum())


def change(s, call):
    pass
