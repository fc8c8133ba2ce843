import torch


def make():
    return {"x": torch.tensor(1.0)}


def program(x):
    return torch.add(True, True, out=x)


def after(r, s):
    pass


def change(s, call):
    pass
