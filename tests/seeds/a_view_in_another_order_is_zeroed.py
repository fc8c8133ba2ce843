import torch


def make():
    return {"x": torch.zeros(2, 1, 3)}


def program(x):
    x.swapaxes(0, -1).zero_()
    try:
        x.bernoulli_(0.5)
        raise KeyError(1)
    except KeyError:
        x.normal_()


def after(r, s):
    pass


def change(s, call):
    pass
