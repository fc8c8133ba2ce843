import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        with torch.no_grad():
            self.w.add_(1)
        self.requires_grad_(False)
        return x


def make():
    w = torch.tensor([1.0, 2.0, 1.0], requires_grad=True)
    model = Model()
    lin = nn.Sequential(nn.Linear(3, 3), model)
    return {"w": w, "lin": lin}


def program(w, lin):
    a = checkpoint(lin, w, use_reentrant=False)
    a = checkpoint(lin, a, use_reentrant=False)
    torch.autograd.grad(a.sum(), w)


def after(r, s):
    pass


def change(s, call):
    pass
