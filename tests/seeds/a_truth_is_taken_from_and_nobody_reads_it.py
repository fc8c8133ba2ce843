import torch


def make():
    return {"x": torch.tensor(1.0)}


def program(x):
    minus = True - x
    return [x, minus][0]


def after(r, s):
    pass


def change(s, call):
    pass
