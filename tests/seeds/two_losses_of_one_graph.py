import torch


def make():
    return {"w": torch.tensor([1.0, 2.0], requires_grad=True), "x": torch.tensor([3.0, 4.0])}


def program(w, x):
    hidden = w.exp()
    return (w * x).sum(), (w + x).sum(), w.sin().sum(), hidden, hidden.cos()


def after(r, s):
    seen = []
    for loss in (*r[:4], r[0], r[1], r[4]):
        try:
            loss.sum().backward()
        except RuntimeError as error:
            seen.append(str(error))
    return seen


def change(s, call):
    pass
