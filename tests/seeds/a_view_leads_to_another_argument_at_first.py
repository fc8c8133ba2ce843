import torch


def make():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    return {"w": w, "y": w[:1]}


def program(w, y):
    return torch.autograd.grad((y * y).sum(), w, allow_unused=True)


def after(r, s):
    pass


def change(s, call):
    s.y = s.y.detach().requires_grad_()
