import torch


def make():
    w = torch.ones(2, requires_grad=True)
    return {"w": w, "y": w.detach(), "i": torch.tensor(1)}


def program(w, y, i):
    picked = w.gather(0, i)
    y.t_()
    picked.backward()


def after(r, s):
    pass


def change(s, call):
    pass
