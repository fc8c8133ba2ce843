from types import SimpleNamespace

import torch


def make():
    x = 1.0
    w = torch.tensor(1.0)
    y = w
    table = {}
    state = SimpleNamespace(count=1)
    return {"x": x, "y": y, "w": w, "table": table, "state": state}


def program(x, y, w, table, state):
    y *= state.count
    table["k"] = w
    y.sub_(x, alpha=True)


def after(r, s):
    pass


def change(s, call):
    pass
