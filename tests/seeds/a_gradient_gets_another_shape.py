import torch


def make():
    w = torch.tensor(1.0, requires_grad=True)
    return {"w": w}


def program(w):
    w.backward()
    a = w.grad
    a.unsqueeze_(0)


def after(r, s):
    pass


def change(s, call):
    pass
