"""The tokenizer of Qwen's models from Qwen2 on, and the settings that their small models share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from vlrft.config import BuildConfig
from vlrft.vision.markup import MARKUP

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END, IMAGE_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"
VIDEO_PAD = "<|video_pad|>"
SPECIAL_TOKENS = (
    *(END_OF_TEXT, IM_START, IM_END),
    *MARKUP,
    *(VISION_START, VISION_END, "<|vision_pad|>", IMAGE_PAD, VIDEO_PAD),
)
TEMPLATE_WORDS = "system user assistant You are a helpful assistant."
BYTES = 256  # the alphabet of byte-level BPE
ROUND_VOCAB = 64  # the number of embedding rows is a multiple of this, as in the released models


def build_tokenizer(
    corpus: Iterable[str], vocab_size: int, *, template: str = "qwen2_vl.jinja"
) -> Any:
    """A Qwen2 tokenizer (byte-level BPE) of at most `vocab_size` tokens, its merges learned from `corpus`. `template`: the file
    of the chat template."""
    vocab, merges = learn_tokens(corpus, vocab_size - len(SPECIAL_TOKENS))
    return make_tokenizer(vocab, merges, template)


def learn_tokens(
    corpus: Iterable[str], vocab_size: int
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and the merges of a byte-level BPE of at most `vocab_size` tokens, by Qwen2's rules for splitting text."""
    # half a surrogate pair is refused later
    texts = (text.encode(errors="replace").decode() for text in corpus)
    return _vocab_and_merges(_learn((TEMPLATE_WORDS, *texts), vocab_size))


@lru_cache(maxsize=4)  # a run's memory plan and its policy learn from the same text
def _learn(corpus: tuple[str, ...], vocab_size: int) -> str:
    """The tokens as JSON of the tokenizers package."""
    from tokenizers import Tokenizer, models, trainers
    from transformers import Qwen2Tokenizer

    rules = Qwen2Tokenizer().backend_tokenizer
    learned = Tokenizer(models.BPE())
    learned.normalizer, learned.pre_tokenizer = rules.normalizer, rules.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=_byte_alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator(corpus, trainer)
    return str(learned.to_str())


def make_tokenizer(
    vocab: Mapping[str, int],
    merges: Sequence[tuple[str, str]],
    template: str = "qwen2_vl.jinja",
) -> Any:
    """A Qwen2 tokenizer of these tokens, followed by the special ones. `template`: the file of the chat template."""
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
        chat_template=read_template(template),
    )


def read_template(name: str) -> str:
    """A chat template of this folder."""
    return files("vlrft.policy.families").joinpath(name).read_text("utf-8")


def _byte_alphabet() -> list[str]:
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())


def _vocab_and_merges(learned: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    model = json.loads(learned)["model"]
    pairs = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    return dict(model["vocab"]), [(left, right) for left, right in pairs]


def text_settings(config: BuildConfig, tokenizer: Any) -> dict[str, Any]:
    """The settings of a small decoder."""
    id_of = tokenizer.convert_tokens_to_ids
    return {
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


def mistakes(config: BuildConfig, *, head_multiple: int = 8) -> list[str]:
    """The rules for sizes that the config breaks. `head_multiple`: of a head's width; by default it has three rotary sections
    of pairs."""
    vision_head = config.vision_width // config.vision_heads
    rests = {
        "vision_width: must be a multiple of vision_heads": config.vision_width
        % config.vision_heads,
        "vision_width: divided by vision_heads, must be a multiple of 4": vision_head % 4,
    }
    broken = [rule for rule, rest in rests.items() if rest]
    return [*text_mistakes(config, head_multiple=head_multiple), *broken]


def text_mistakes(config: BuildConfig, *, head_multiple: int = 8) -> list[str]:
    """As `mistakes`, for a model without a vision part."""
    head = config.hidden_size // config.heads
    smallest = BYTES + len(SPECIAL_TOKENS)
    rests = {  # rule -> a number that is 0 where it is kept
        "hidden_size: must be a multiple of heads": config.hidden_size % config.heads,
        "heads: must be a multiple of kv_heads": config.heads % config.kv_heads,
        f"hidden_size: divided by heads, must be a multiple of {head_multiple}": head
        % head_multiple,
        f"vocab_size: must be at least {smallest}": max(smallest - config.vocab_size, 0),
    }
    return [rule for rule, rest in rests.items() if rest]
