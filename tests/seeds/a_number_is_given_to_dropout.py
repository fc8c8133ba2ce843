import torch
import torch.nn.functional as F


def make():
    return {"y": torch.ones(3)}


def program(y):
    print(end="")
    with torch.inference_mode():
        F.dropout(3, 0.5, training=False)
    return y + 1


def after(r, s):
    pass


def change(s, call):
    pass
