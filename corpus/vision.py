"""torchvision's and timm's families, each in its smallest size that still has every kind of block."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from corpus.table import Case, add, image, is_installed


def define_missing_operators() -> None:
    """Makes torchvision importable where its compiled half does not load: importing it needs two operators to be
    known."""
    if not is_installed("torchvision") or hasattr(torch.ops.torchvision, "nms"):
        return
    try:
        for library in _compiled_half():
            torch.ops.load_library(str(library))
    except OSError:  # built for CUDA, and there is none
        for name in ("nms", "qnms"):
            _LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _compiled_half() -> list[Path]:
    """The library with its operators, found without importing what would need them."""
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None
    assert spec.origin is not None
    return list(Path(spec.origin).parent.glob("_C*.so"))


_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")

TORCHVISION = {
    "alexnet": 64, "vgg11_bn": 32, "resnet18": 64, "resnext50_32x4d": 64, "wide_resnet50_2": 64, "densenet121": 64,
    "googlenet": 64, "inception_v3": 299, "squeezenet1_1": 64, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "shufflenet_v2_x0_5": 64, "mnasnet0_5": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 64, "regnet_y_400mf": 64,
    "convnext_tiny": 64, "vit_b_32": 224, "swin_t": 64, "swin_v2_t": 64, "maxvit_t": 224,
}  # fmt: skip
"""The builders, and the size of image that each is called with."""

TIMM: dict[str, tuple[int, dict[str, Any]]] = {
    "beit_base_patch16_224": (224, {"depth": 2, "embed_dim": 96, "num_heads": 3}),
    "cait_xxs24_224": (224, {"depth": 2, "embed_dim": 96, "num_heads": 3}),
    "coat_tiny": (224, {"serial_depths": (1, 1, 1, 1), "parallel_depth": 1}),
    "convit_tiny": (224, {"depth": 3}),
    "crossvit_tiny_240": (240, {}),
    "cspresnet50": (64, {}),
    "deit_tiny_distilled_patch16_224": (224, {"depth": 2}),
    "dla34": (64, {}),
    "dpn48b": (64, {}),
    "edgenext_xx_small": (64, {}),
    "efficientformer_l1": (224, {}),
    "eva02_tiny_patch14_224": (224, {"depth": 2}),
    "focalnet_tiny_srf": (64, {}),
    "fastvit_t8": (64, {}),
    "gernet_s": (64, {}),
    "ghostnet_100": (64, {}),
    "gmlp_ti16_224": (224, {}),
    "hrnet_w18_small": (64, {}),
    "levit_128s": (224, {}),
    "mixer_s32_224": (224, {}),
    "mobilevit_xxs": (64, {}),
    "mvitv2_tiny": (224, {}),
    "nfnet_l0": (64, {}),
    "pit_ti_224": (224, {}),
    "poolformer_s12": (64, {}),
    "pvt_v2_b0": (64, {}),
    "repvgg_a0": (64, {}),
    "res2net50_26w_4s": (64, {}),
    "resmlp_12_224": (224, {}),
    "resnest14d": (64, {}),
    "rexnet_100": (64, {}),
    "tresnet_m": (64, {}),
    "twins_pcpvt_small": (64, {"depths": (1, 1, 1, 1)}),
    "vit_tiny_patch16_224": (224, {"depth": 2}),
    "volo_d1_224": (224, {}),
    "xception41": (64, {}),
    "xcit_nano_12_p16_224": (224, {"depth": 2}),
}
"""The names, the size of image, and the settings that make the model smaller."""


def register() -> None:
    """timm builds on torchvision, which is why it alone is not enough."""
    define_missing_operators()
    if is_installed("torchvision"):
        for name, size in TORCHVISION.items():
            add(Case(f"torchvision/{name}", "vision", _torchvision(name), image(size)))
    if is_installed("timm", "torchvision"):
        for name, (size, smaller) in TIMM.items():
            add(Case(f"timm/{name}", "vision", _timm(name, smaller), image(size)))


def _torchvision(name: str) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        import torchvision

        # These two warn where it is left open.
        more = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
        return torchvision.models.get_model(name, weights=None, num_classes=10, **more)

    return build


def _timm(name: str, smaller: dict[str, Any]) -> Callable[[], torch.nn.Module]:
    def build() -> torch.nn.Module:
        import timm

        return timm.create_model(name, num_classes=10, **smaller)

    return build
