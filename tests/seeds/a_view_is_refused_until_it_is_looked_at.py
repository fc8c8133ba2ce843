import torch


def make():
    x = torch.tensor([1.0, 2.0])
    return {"x": x, "y": x.view(-1), "w": torch.tensor(1.0, requires_grad=True), "seen": []}


def program(x, y, w, seen):
    x.copy_(w)
    y.fill_(1.0)
    seen.append(1)


def after(r, s):
    pass


def change(s, call):
    s.x = torch.tensor([3.0, 4.0])
    s.y = s.x.view(-1)
