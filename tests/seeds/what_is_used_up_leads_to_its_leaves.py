import torch


def make():
    x = torch.tensor(1.0)
    w = torch.tensor(1.0, requires_grad=True)
    y = w
    table = {"k": x}
    return {"y": y, "w": w, "table": table}


def program(y, w, table):
    b = w.masked_fill(y > 1.0, 1.0)
    for i_ in range(2):
        (w + b).backward()
        table["k"].requires_grad_()


def after(r, s):
    pass


def change(s, call):
    pass
