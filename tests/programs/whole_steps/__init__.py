"""Whole training steps, by what is special in them."""

from programs.whole_steps import gradients, nets, optimizers
from programs.whole_steps.training import CASES

__all__ = ["CASES", "gradients", "nets", "optimizers"]
