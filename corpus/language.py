"""Hugging Face architectures, made from small configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from corpus.table import Case, Inputs, add, is_installed, tokens
from corpus.vision import define_missing_operators

SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
"""The settings that most configurations call the same."""

GPT = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}

ENCODERS: dict[str, dict[str, Any]] = {
    "Albert": {**SMALL, "embedding_size": 16},
    "Bert": SMALL,
    "Camembert": SMALL,
    "DebertaV2": {**SMALL, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    "DistilBert": {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
    "Electra": {**SMALL, "embedding_size": 16},
    "MPNet": SMALL,
    "ModernBert": {**SMALL, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1,
                   "sep_token_id": 2},
    "Roberta": SMALL,
    "SqueezeBert": {**SMALL, "embedding_size": 32},
}  # fmt: skip

DECODERS: dict[str, dict[str, Any]] = {
    "Bloom": {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "CTRL": {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "dff": 64},
    "Falcon": {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "Gemma": {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    "Gemma2": {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    "GPT2": GPT,
    "GPTJ": {**GPT, "rotary_dim": 4},
    "GPTNeo": {"vocab_size": 99, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
               "attention_types": [[["global", "local"], 1]]},
    "GPTNeoX": SMALL,
    "Llama": {**SMALL, "num_key_value_heads": 2},
    "Mamba": {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "Mistral": {**SMALL, "num_key_value_heads": 2},
    "Mixtral": {**SMALL, "num_key_value_heads": 2, "num_local_experts": 4},
    "Olmo2": {**SMALL, "num_key_value_heads": 2},
    "OPT": {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "Phi": SMALL,
    "Qwen2": {**SMALL, "num_key_value_heads": 2},
    "Qwen3": {**SMALL, "num_key_value_heads": 2, "head_dim": 8},
    "StableLm": {**SMALL, "num_key_value_heads": 2},
}  # fmt: skip
"""Called with ``use_cache``, so that what they return holds a cache."""

SEQ2SEQ: dict[str, dict[str, Any]] = {
    "Bart": {},
    "Marian": {"pad_token_id": 0, "decoder_start_token_id": 0},
    "Pegasus": {"pad_token_id": 0},
    "T5": {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "MT5": {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    "M2M100": {"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
}
_BART_LIKE = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64,
}  # fmt: skip

_PATCHES = {
    "image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64,
}  # fmt: skip
VISION: dict[str, dict[str, Any]] = {
    "ViT": _PATCHES,
    "DeiT": _PATCHES,
    "Beit": _PATCHES,
    "Dinov2": {**_PATCHES, "mlp_ratio": 2},
    "Swin": {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
             "window_size": 4},
    "Segformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 32], "num_attention_heads": [1, 2, 2, 2]},
    "ConvNext": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 32, 32]},
    "ResNet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
    "SiglipVision": _PATCHES,
    "CLIPVision": _PATCHES,
}  # fmt: skip

_AUDIO = {
    **SMALL, "conv_dim": (8, 8, 8), "conv_stride": (4, 4, 4), "conv_kernel": (8, 8, 8), "feat_extract_norm": "group",
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "mask_time_prob": 0.0, "layerdrop": 0.0,
}  # fmt: skip
AUDIO: dict[str, dict[str, Any]] = {"Wav2Vec2": _AUDIO, "Hubert": _AUDIO, "WavLM": _AUDIO}


def register() -> None:
    """Adds each configuration as a case, by the inputs that its kind takes; nothing is built yet."""
    if not is_installed("transformers"):
        return
    # Models of images import torchvision, which needs them.
    define_missing_operators()
    for name, settings in ENCODERS.items():
        add(Case(f"hf/{name}", "language", _model(name, settings), tokens()))
    for name, settings in DECODERS.items():
        add(Case(f"hf/{name}", "language", _model(name, settings), tokens(use_cache=True)))
    for name, settings in SEQ2SEQ.items():
        small = settings if "d_model" in settings else {**_BART_LIKE, **settings}
        add(Case(f"hf/{name}", "language", _model(name, small), _pairs))
    for name, settings in VISION.items():
        add(Case(f"hf/{name}", "vision", _model(name, settings), _pixels))
    for name, settings in AUDIO.items():
        add(Case(f"hf/{name}", "audio", _model(name, settings), lambda: ((torch.randn(2, 1600),), {})))
    # Two that take something else than the others of their kind.
    add(Case("hf/Whisper", "audio", _model("Whisper", {**_BART_LIKE, **_WHISPER}), _spectrogram))
    add(Case("hf/CLIP", "vision", _clip, _text_and_image))


_WHISPER = {"num_mel_bins": 8, "max_source_positions": 20, "max_target_positions": 20, "pad_token_id": 0,
            "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}  # fmt: skip


def _model(name: str, settings: dict[str, Any]) -> Callable[[], torch.nn.Module]:
    """A builder by the names that transformers gives to a family: ``BertConfig`` and ``BertModel``."""

    def build() -> torch.nn.Module:
        import transformers

        config = getattr(transformers, f"{name}Config")(**settings)
        return getattr(transformers, f"{name}Model")(config)

    return build


def _clip() -> torch.nn.Module:
    """Its configuration is made of two: of a model of texts and one of images."""
    import transformers

    config = transformers.CLIPConfig(text_config=SMALL, vision_config=_PATCHES, projection_dim=16)
    return transformers.CLIPModel(config)


def _pixels() -> Inputs:
    return (), {"pixel_values": torch.randn(2, 3, 32, 32)}


def _pairs() -> Inputs:
    """A text and a shorter one that is written from it."""
    ids = torch.randint(3, 99, (2, 9))
    return (), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": ids[:, :5].clone()}


def _spectrogram() -> Inputs:
    return (), {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": torch.randint(3, 99, (2, 5))}


def _text_and_image() -> Inputs:
    _, text = tokens()()
    return (), {**text, "pixel_values": torch.randn(2, 3, 32, 32)}
