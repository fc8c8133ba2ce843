import torch


def make():
    x = 0
    w = torch.tensor(1.0, requires_grad=True)
    return {"x": x, "w": w}


def program(x, w):
    a = w
    u = a % x
    with torch.no_grad():
        a = u.view(1)
    u.unsqueeze_(0)
    if a:
        pass


def after(r, s):
    pass


def change(s, call):
    pass
