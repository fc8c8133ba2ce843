import torch


def make():
    w = torch.tensor([3.0, 1.0], requires_grad=True)
    w.grad = torch.ones(2)
    return {"w": w, "y": w[:1], "opt": torch.optim.RMSprop([w], lr=0.1)}


def program(w, y, opt):
    opt.step()
    return w[:1] - y


def after(r, s):
    pass


def change(s, call):
    pass
