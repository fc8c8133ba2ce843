import torch
import torch.nn.functional as F


def make():
    x = torch.tensor([-1.0, 1.0])
    return {"x": x, "y": x}


def program(x, y):
    F.dropout(x, 1.0, inplace=True)
    return F.layer_norm(y, y.shape)


def after(r, s):
    pass


def change(s, call):
    pass
