import torch
from torch.utils.checkpoint import checkpoint


def make():
    w = torch.tensor(1.0, requires_grad=True)
    flag = False
    return {"w": w, "flag": flag}


def program(w, flag):
    with torch.inference_mode():
        with torch.set_grad_enabled(not flag):
            c = checkpoint(torch.tanh, w, use_reentrant=True)
    return c


def after(r, s):
    pass


def change(s, call):
    pass
