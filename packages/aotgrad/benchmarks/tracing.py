"""Prints how long the joint trace of whole models takes: BERT-base, GPT-2 (transformers), ResNet-50 (torchvision)."""

import time

import torch
from memory import declare_operators
from torch import nn

import aotgrad


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    from torchvision.models import resnet50
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model

    tokens, images = torch.randint(0, 30000, (2, 64)), torch.randn(1, 3, 64, 64)
    return {
        "BERT-base": (BertModel(BertConfig()), tokens),
        "GPT-2": (GPT2Model(GPT2Config()), tokens),
        "ResNet-50": (resnet50(), images),
    }


def measure(name: str, model: nn.Module, inputs: torch.Tensor) -> None:
    """Processor time from the call to the verified joint graph: the first trace, and the best of three."""
    seconds, nodes = [], []

    def partition(joint: aotgrad.tracing.joint.JointGraph) -> aotgrad.partitioning.partition.Pair:
        seconds.append(time.process_time() - start)
        nodes.append(len(joint.graph.nodes))
        return aotgrad.default_partition(joint)

    for _ in range(3):
        compiled = aotgrad.module(model, forward=aotgrad.run_eagerly, partition=partition)
        start = time.process_time()
        compiled(inputs)
    print(f"{name}: {nodes[0]} nodes, first {seconds[0]:.2f} s, best {min(seconds):.2f} s")


if __name__ == "__main__":
    library = declare_operators()
    # What tracing imports counts for no model.
    aotgrad.function(lambda x: x.sin(), forward=aotgrad.run_eagerly)(torch.ones(1, requires_grad=True)).backward()
    for name, (model, inputs) in models().items():
        measure(name, model.train(), inputs)
