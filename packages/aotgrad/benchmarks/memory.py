"""Prints the peak memory of a training step: eager, default partition, min-cut partition, in one run.

`python memory.py [bert] [resnet18] [layers]`; BERT-base comes from transformers, ResNet-18 from torchvision.
What counts is what torch allocates beyond the parameters, as torch's profiler tells it: the
resident memory of a process says as much about malloc.
"""

import gc
import sys
from collections.abc import Callable

import torch
from figures import Encoder
from torch import nn
from torch.profiler import profile

import aotgrad


def bert() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    from transformers import BertConfig, BertForMaskedLM

    tokens = torch.randint(0, 30000, (4, 128))
    return BertForMaskedLM(BertConfig()), lambda model: model(tokens, labels=tokens).loss


def resnet18() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    from torchvision.models import resnet18 as build

    images, labels = torch.randn(16, 3, 224, 224), torch.randint(0, 1000, (16,))
    return build(), lambda model: nn.functional.cross_entropy(model(images), labels)


def layers() -> tuple[nn.Module, Callable[[nn.Module], torch.Tensor]]:
    tokens = torch.randint(0, 1000, (16, 128))
    return Encoder(4), lambda model: model(tokens)


def peak(model: nn.Module, step: Callable[[], object]) -> int:
    """The most bytes that are alive at once while `step` runs, beyond those before it."""
    step()
    model.zero_grad()
    gc.collect()
    with profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        step()
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def measure(name: str) -> None:
    model, loss = globals()[name]()
    pairs = []

    def kept(partition: Callable) -> Callable:
        return lambda joint: pairs.append(partition(joint)) or pairs[-1]

    steps = {"eager": model}
    for title, partition in (("default", aotgrad.default_partition), ("min-cut", aotgrad.min_cut_partition)):
        steps[title] = aotgrad.module(model, forward=aotgrad.run_eagerly, partition=kept(partition))
    for title, call in steps.items():

        def step(call: nn.Module = call) -> None:
            loss(call).backward()

        most = peak(model, step)
        model.zero_grad()
        saved = f", {pairs[-1].saved_bytes / 2**20:.0f} MiB saved" if pairs else ""
        print(f"{name}, {title}: {most / 2**20:.1f} MiB{saved}")


def declare_operators() -> torch.library.Library:
    """torchvision's Python, which transformers imports, runs without its binary if two operators are declared."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    if not hasattr(torch.ops.torchvision, "nms"):
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


if __name__ == "__main__":
    library = declare_operators()
    for chosen in sys.argv[1:] or ("bert", "resnet18"):
        measure(chosen)
