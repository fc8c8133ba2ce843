import torch
import torch.nn.functional as F


def make():
    return {"x": torch.ones(2, 3), "seen": []}


def program(x, seen):
    y = F.dropout(x, 0.5, training=False)
    seen.append(y)
    return y


def after(r, s):
    pass


def change(s, call):
    s.x = torch.ones(2 + call, 3)
