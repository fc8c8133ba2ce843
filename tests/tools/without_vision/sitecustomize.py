"""Found by Python at its start where this folder is on the path: a torchvision whose operators were built for another
torch can then be imported, with all that needs none of them (its models, transformers, timm)."""

import contextlib
import importlib.util
from pathlib import Path

import torch

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


def load_own_operators() -> None:
    """Where torchvision's library fits this torch it defines them itself, and twice would end the process."""
    found = importlib.util.find_spec("torchvision")
    for library in Path(found.origin).parent.glob("_C*.so") if found and found.origin else ():
        with contextlib.suppress(OSError):
            torch.ops.load_library(library)


load_own_operators()
library = torch.library.Library("torchvision", "FRAGMENT")  # kept: the operators live as long as it does
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}{SCHEMA}")
