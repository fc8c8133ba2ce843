import torch


def make():
    return {"w": torch.tensor(1.0, requires_grad=True)}


def program(w):
    u = w * 2
    w.detach_()
    w.copy_(u)


def after(r, s):
    pass


def change(s, call):
    pass
