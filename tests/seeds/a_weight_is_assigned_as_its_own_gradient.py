import torch
import torch.nn.functional as F


def make():
    return {"w": torch.ones(3, requires_grad=True), "i": torch.tensor([1, 2]), "items": [torch.ones(4), 2], "call": 0}


def program(w, i, items, call):
    if call == 0:
        return F.dropout(i, 0.5)
    if call == 1:
        F.linear(w, i)
        return F.mse_loss(w, w[:0])
    items.insert(0, w)
    w.grad = w
    with torch.no_grad():
        return w.view(-1).mul_(2)


def after(r, s):
    pass


def change(s, call):
    s.call = call
    s.i = torch.zeros(0, 3, dtype=torch.bfloat16)
