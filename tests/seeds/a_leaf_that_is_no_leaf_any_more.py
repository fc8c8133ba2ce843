import torch


def make():
    w = torch.tensor(1.0, requires_grad=True)
    return {"w": w}


def program(w):
    w.backward()


def after(r, s):
    pass


def change(s, call):
    if call > 1:
        s.w = s.w * 1
