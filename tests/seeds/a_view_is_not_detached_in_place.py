import torch


def make():
    return {"x": torch.tensor([1.0, 2.0]), "y": torch.tensor([3.0]), "seen": []}


def program(x, y, seen):
    y.exp_()
    x.detach_()
    seen.append(1)
    return x * 2


def after(r, s):
    pass


def change(s, call):
    s.x = torch.ones(3)[:2]
