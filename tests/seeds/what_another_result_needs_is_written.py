import torch
import torch.nn.functional as F


def make():
    w = torch.ones(7, 1, requires_grad=True)
    return {"x": torch.tensor([[1.0], [2.0]] * 3 + [[1.0]]), "w": w, "opt": torch.optim.SGD([w])}


def program(x, w, opt):
    t = w.square()
    picked = w.index_select(0, torch.tensor(1))
    w.square().mean().backward()
    opt.step()
    return t, F.mse_loss(x, w), picked


def after(r, s):
    s.x.add_(1)
    r[2].sum().backward()
    r[0].sum().backward()


def change(s, call):
    pass
