"""Found by Python at its start where this folder is on the path: a torchvision whose operators were built for another
torch can then be imported, with all that needs none of them (its models, transformers, timm)."""

import torch

SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
library = torch.library.Library("torchvision", "FRAGMENT")  # kept: the operators live as long as it does
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        library.define(f"{name}{SCHEMA}")
