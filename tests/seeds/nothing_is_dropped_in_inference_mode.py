import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(3, 3)


def make():
    w = torch.tensor(1.0)
    w.grad = torch.ones_like(w)
    model = Model()
    lin = model.one
    return {"w": w, "lin": lin}


def program(w, lin):
    with torch.inference_mode():
        h = F.dropout(w, 1.0, training=False)
    w.sub_(h.grad)
    lin.note = w


def after(r, s):
    pass


def change(s, call):
    pass
