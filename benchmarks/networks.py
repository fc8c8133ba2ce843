"""Whole models that are measured: inference, and training with forward and backward.  Weights are random."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import torch
from corpus.vision import define_missing_operators

from benchmarks.program import Program, case, inference, training

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from models.resnet import resnet18


def _image(device: str, batch: int, size: int) -> torch.Tensor:
    return torch.randn(batch, 3, size, size, device=device)


def _tokens(device: str, batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, 30000, (batch, length), device=device)


def _hub() -> Any:
    """transformers, which imports torchvision for models of images."""
    define_missing_operators()
    return importlib.import_module("transformers")


def _bert(device: str) -> torch.nn.Module:
    """Without dropout: two contenders would draw different numbers."""
    hub = _hub()
    config = hub.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model: torch.nn.Module = hub.BertModel(config).to(device).eval()
    return model


@case
def resnet18_inference(device: str) -> Program:
    """Convolutions are the library's; what counts is batch norm and ReLU behind them."""
    return inference(resnet18().to(device).eval(), _image(device, 16, 128))


@case
def resnet18_training(device: str) -> Program:
    """Batch norm with statistics of the batch, and its gradients: many reductions over channels."""
    return training(resnet18().to(device), _image(device, 16, 128))


@case
def bert_inference(device: str) -> Program:
    """Few tokens: the products are small, and what a call costs is seen."""
    return inference(_bert(device), input_ids=_tokens(device, 2, 128))


@case
def bert_training(device: str) -> Program:
    """The same with gradients; without dropout, so that results can be compared."""
    return training(_bert(device), input_ids=_tokens(device, 2, 128))


@case
def gpt2_inference(device: str) -> Program:
    """Attention with a causal mask, and weights that are stored transposed (``Conv1D``)."""
    hub = _hub()
    model = hub.GPT2Model(hub.GPT2Config(use_cache=False)).to(device).eval()
    return inference(model, input_ids=_tokens(device, 2, 128))


@case
def llama_inference(device: str) -> Program:
    """Rotary positions, grouped heads and a gated layer, all of them written out in Python."""
    hub = _hub()
    config = hub.LlamaConfig(
        hidden_size=768, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=12, num_key_value_heads=4,
        use_cache=False,
    )  # fmt: skip
    return inference(hub.LlamaModel(config).to(device).eval(), input_ids=_tokens(device, 2, 128))


@case
def vit_inference(device: str) -> Program:
    """One convolution for patches, then a transformer over a number of tokens that no power of two is."""
    hub = _hub()
    return inference(hub.ViTModel(hub.ViTConfig()).to(device).eval(), pixel_values=_image(device, 2, 224))
