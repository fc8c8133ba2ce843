# What was made in inference mode refuses a write outside of it, also where the graph has another result.
import torch


def make():
    return {"x": torch.ones(3), "w": torch.ones(3, requires_grad=True)}


def program(x, w):
    b = w.clone()
    with torch.inference_mode():
        u = x + 1
    u.mul_(2)
    return b


def after(r, s):
    pass


def change(s, call):
    pass
