"""A view with a history gets another shape where nothing has one; torch can tell no history of it afterwards."""

import torch


def make():
    w = torch.tensor([1.0], requires_grad=True)
    y = w[:1]
    return {"y": y}


def program(y):
    with torch.inference_mode():
        y.unsqueeze_(0)


def after(r, s):
    pass


def change(s, call):
    pass
