import torch


def make():
    return {"x": torch.ones(()), "y": torch.arange(9.0).reshape(3, 3), "w": torch.ones(2, requires_grad=True)}


def program(x, y, w):
    x.unsqueeze_(0)
    y.t_()
    w.detach_()


def after(r, s):
    pass


def change(s, call):
    pass
