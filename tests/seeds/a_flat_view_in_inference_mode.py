# result: value: [9.0] instead of [4.0]
"""Made by the search from seed 2085004066."""

import torch


def make():
    return {"w": torch.tensor([[2.0]], requires_grad=True)}


def program(w):
    with torch.inference_mode():
        c = w.flatten()
        return c * 2 if c.requires_grad else c + 7


def after(r, s):
    pass


def change(s, call):
    pass
