"""Small real policies made from a config and a seed: the transformers classes with a tokenizer trained on the spot.

Sizes follow `BuildConfig`; all else is as in the released models: patches of 14 pixels merged 2 by 2 (a 112 x 112 image
is 16 tokens), Qwen's special tokens in their order, digits one token each, Qwen2-VL's chat template.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import torch
from torch import nn

from vlrft.config import BuildConfig
from vlrft.schema.errors import ConfigError

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL_TOKENS = (
    END_OF_TEXT,
    IM_START,
    IM_END,
    *("<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>"),
    *("<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>"),
    *("<|image_pad|>", "<|video_pad|>"),
)
TEMPLATE_WORDS = "system user assistant You are a helpful assistant."
BYTES = 256  # the alphabet of byte-level BPE
ROUND_VOCAB = 64  # embedding rows come in multiples of it, as in the released models
VISION_MLP_RATIO = 2


def build_tokenizer(corpus: Iterable[str], vocab_size: int) -> Any:
    """A Qwen2 tokenizer (byte-level BPE) of at most `vocab_size` tokens, its merges learned from `corpus`."""
    from tokenizers import Tokenizer, models, trainers
    from transformers import Qwen2Tokenizer

    rules = Qwen2Tokenizer().backend_tokenizer
    learned = Tokenizer(models.BPE())
    learned.normalizer, learned.pre_tokenizer = rules.normalizer, rules.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL_TOKENS),
        initial_alphabet=_byte_alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator([TEMPLATE_WORDS, *corpus], trainer)
    return make_tokenizer(*_vocab_and_merges(learned))


def make_tokenizer(vocab: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> Any:
    """A Qwen2 tokenizer of these tokens and, behind them, the special ones; with the released chat template."""
    from transformers import Qwen2Tokenizer

    make: Any = Qwen2Tokenizer
    return make(
        vocab={**vocab, **{token: len(vocab) + k for k, token in enumerate(SPECIAL_TOKENS)}},
        merges=merges,
        unk_token=None,
        pad_token=END_OF_TEXT,
        eos_token=IM_END,
        extra_special_tokens=list(SPECIAL_TOKENS),
        padding_side="left",
        chat_template=files("vlrft.policy").joinpath("qwen2_vl.jinja").read_text("utf-8"),
    )


def _byte_alphabet() -> list[str]:
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _vocab_and_merges(learned: Any) -> tuple[dict[str, int], list[tuple[str, str]]]:
    import json

    model = json.loads(learned.to_str())["model"]
    pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    return dict(model["vocab"]), [(left, right) for left, right in pairs]


def build_model(config: BuildConfig, tokenizer: Any, seed: int, attention: Any) -> nn.Module:
    """A model of random weights in float32; the global generators are left as they were.

    Raises ConfigError for sizes that do not divide.
    """
    _check(config)
    import transformers

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        make = getattr(transformers, _CLASSES[config.family])
        model = make._from_config(_model_config(config, tokenizer), attn_implementation=attention)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 and "patch_embed" not in name:
                parameter.mul_(config.init_scale)
    end, turn = tokenizer.convert_tokens_to_ids([END_OF_TEXT, IM_END])
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=end, pad_token_id=end, eos_token_id=[turn, end]
    )
    assert isinstance(model, nn.Module)
    return model


_CLASSES = {
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen2": "Qwen2ForCausalLM",
}


def _check(config: BuildConfig) -> None:
    head, vision_head = (
        config.hidden_size // config.heads,
        config.vision_width // config.vision_heads,
    )
    rules = {
        "hidden_size: a multiple of heads": config.hidden_size % config.heads,
        "heads: a multiple of kv_heads": config.heads % config.kv_heads,
        "hidden_size / heads: a multiple of 8": head % 8,  # three rotary sections of pairs
        "vision_width: a multiple of vision_heads": config.vision_width % config.vision_heads,
        "vision_width / vision_heads: a multiple of 4": vision_head % 4,
        f"vocab_size: at least {BYTES + len(SPECIAL_TOKENS)}": max(
            BYTES + len(SPECIAL_TOKENS) - config.vocab_size, 0
        ),
    }
    broken = [f"policy.build.{rule}" for rule, rest in rules.items() if rest]
    if broken:
        raise ConfigError(broken)


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    import transformers

    id_of = tokenizer.convert_tokens_to_ids
    text: dict[str, Any] = {
        "vocab_size": -(-len(tokenizer) // ROUND_VOCAB) * ROUND_VOCAB,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "bos_token_id": id_of(END_OF_TEXT),
        "eos_token_id": id_of(IM_END),
        "pad_token_id": id_of(END_OF_TEXT),
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    }
    if config.family == "qwen2":
        return transformers.Qwen2Config(**text, tie_word_embeddings=True)
    head = config.hidden_size // config.heads
    time, height = head // 8, 3 * head // 16  # the released models' shares of the rotary pairs
    text["rope_parameters"]["mrope_section"] = [time, height, head // 2 - time - height]
    vision: dict[str, Any] = {
        "depth": config.vision_layers,
        "num_heads": config.vision_heads,
        "patch_size": 14,
    }
    inner = VISION_MLP_RATIO * config.vision_width
    tokens = {
        "image_token_id": id_of("<|image_pad|>"),
        "video_token_id": id_of("<|video_pad|>"),
        "vision_start_token_id": id_of("<|vision_start|>"),
        "vision_end_token_id": id_of("<|vision_end|>"),
        "tie_word_embeddings": True,
    }
    if config.family == "qwen2_vl":
        vision |= {
            "embed_dim": config.vision_width,
            "hidden_size": config.hidden_size,
            "mlp_ratio": VISION_MLP_RATIO,
        }
        return transformers.Qwen2VLConfig(text_config=text, vision_config=vision, **tokens)
    vision |= {
        "hidden_size": config.vision_width,
        "out_hidden_size": config.hidden_size,
        "intermediate_size": inner,
        "window_size": 112,
        "fullatt_block_indexes": [config.vision_layers - 1],
    }
    return transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **tokens)
