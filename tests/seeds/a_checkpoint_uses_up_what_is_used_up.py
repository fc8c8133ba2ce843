import torch
from torch.utils.checkpoint import checkpoint


def make():
    w = torch.tensor([1.0], requires_grad=True)
    return {"y": w * 2, "seen": []}


def program(y, seen):
    def inner(t):
        seen.append(1)
        print(end="")
        y.backward()

    checkpoint(inner, y, use_reentrant=False)
    y[:1] += y


def after(r, s):
    pass


def change(s, call):
    pass
