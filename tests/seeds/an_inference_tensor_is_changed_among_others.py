import torch


def make():
    with torch.inference_mode():
        y = torch.zeros(2)
    return {"x": torch.zeros(2), "y": y, "z": torch.zeros(2)}


def program(x, y, z):
    x.add_(1)
    with torch.inference_mode():
        y.add_(1)
    z.add_(1)
    return x * 2


def after(r, s):
    pass


def change(s, call):
    pass
