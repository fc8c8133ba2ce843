# A gradient that is a view made without gradients refuses a write that gradients are recorded of.
import torch


def make():
    return {"x": torch.tensor(2.0), "w": torch.tensor(1.0, requires_grad=True)}


def program(x, w):
    u = torch.autograd.grad(w.sum(), w)[0]
    for t in [x, u]:
        t.sub_(w)
    x.backward()


def after(r, s):
    pass


def change(s, call):
    pass
