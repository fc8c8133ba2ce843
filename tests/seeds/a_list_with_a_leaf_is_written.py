import torch


def make():
    return {"y": torch.ones(1), "w": torch.ones(1), "b": torch.ones(3, requires_grad=True)}


def program(y, w, b):
    with torch.inference_mode():
        torch._foreach_add_([b, y], 2)
    return w + 1


def after(r, s):
    pass


def change(s, call):
    s.y = s.w
