import torch


def make():
    return {"w": torch.tensor([1.0], requires_grad=True), "seen": []}


def program(w, seen):
    b = w.unflatten(0, (1,))
    try:
        h = b * b
    finally:
        b.register_hook(lambda g: seen.append(g))
    return h


def after(r, s):
    torch.autograd.grad(r, s.w)


def change(s, call):
    pass
