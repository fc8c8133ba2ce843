"""Another file of the program of the mutation test."""

import torch

BIAS = 0.125


class Config:
    double = False


class Scaler:
    by = 1.25

    @classmethod
    def apply_to(cls, x):
        return x * cls.by


def deeper(x):
    return torch.tanh(x) + BIAS


def twist(x):
    return deeper(x).flip(0)
