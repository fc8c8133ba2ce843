"""Recurrent networks as graphs that do not grow with the number of steps.

``steps`` are all steps of a layer as one operator; ``library_kernels`` are oneDNN's and cuDNN's as operators;
``networks`` are made of these.
Must not know: recording.
"""

from aotgrad.recurrent.networks import network
from aotgrad.recurrent.steps import GATES

__all__ = ["GATES", "network"]
