import torch


def make():
    x = torch.tensor([])
    items = []
    table = {"k": x}
    seen = []
    return {"x": x, "items": items, "table": table, "seen": seen}


def program(x, items, table, seen):
    items.append(seen)
    torch.cat([x], out=x)
    table["k"].max(0)


def after(r, s):
    pass


def change(s, call):
    pass
