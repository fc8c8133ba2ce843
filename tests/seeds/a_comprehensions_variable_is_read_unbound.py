import torch


def make():
    return {"x": torch.ones(3), "items": [torch.ones(3)]}


def program(x, items):
    a = x * 2
    if len(items) > 1:
        t = a
    with torch.inference_mode():
        [t * 2 for t in items]
        try:
            x = t
        finally:
            pass
    return x.grad_fn is None


def after(r, s):
    pass


def change(s, call):
    pass
