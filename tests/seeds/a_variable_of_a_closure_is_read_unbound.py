import torch


def make():
    return {"x": torch.tensor(1.0)}


def program(x):
    x.uniform_()
    c = c  # noqa: F821 - it is bound below

    def inner(t):
        return c


def after(r, s):
    pass


def change(s, call):
    pass
