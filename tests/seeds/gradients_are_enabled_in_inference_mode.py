# state.w.grad: value: [0.0, 2.0] instead of [2.0, 2.0]
"""Made by the search from seed 2087002458."""

import torch


def make():
    w = torch.ones(2, requires_grad=True)
    return {"y": w * 2, "w": w}


def program(y, w):
    with torch.inference_mode():
        with torch.enable_grad():
            y.copy_(w)
    y.sum().backward()


def after(r, s):
    pass


def change(s, call):
    pass
