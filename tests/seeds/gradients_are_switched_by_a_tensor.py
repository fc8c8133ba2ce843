import torch


def make():
    i = torch.tensor([], dtype=torch.int64)
    return {"i": i}


def program(i):
    a = i
    if False:
        pass
    else:
        with torch.set_grad_enabled(a.sum()):
            pass


def after(r, s):
    pass


def change(s, call):
    pass
