"""GLM-4.1V and GLM-4.6V-Flash: images as Qwen2-VL takes them, through a tower with gated MLPs, RMS norms and learned positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from vlrft.config import BuildConfig
from vlrft.distributed.cuda_settings import to_device
from vlrft.memory.shapes import VisionShape
from vlrft.policy.families import EXPERTS, Family, _qwen
from vlrft.policy.families._qwen import BYTES, ROUND_VOCAB
from vlrft.policy.families._qwen_vision import QwenVision
from vlrft.policy.families._tower_arguments import Tower, tower_arguments
from vlrft.policy.image_features import ImageFeatures
from vlrft.schema import Pixels

END_OF_TEXT, USER = "<|endoftext|>", "<|user|>"
IMAGE, VIDEO = "<|image|>", "<|video|>"
IMAGE_START, IMAGE_END = "<|begin_of_image|>", "<|end_of_image|>"
VIDEO_START, VIDEO_END = "<|begin_of_video|>", "<|end_of_video|>"
ANSWER_BOX = ("<|begin_of_box|>", "<|end_of_box|>")  # around the answer proper
SPECIAL_TOKENS = (
    *(END_OF_TEXT, "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>"),
    *("<|system|>", USER, "<|assistant|>", "<|observation|>"),
    *(IMAGE_START, IMAGE_END, VIDEO_START, VIDEO_END, *ANSWER_BOX, IMAGE, VIDEO),
)
# side in pixels of an image with a learned position for each patch; others' are interpolated (released: 336)
IMAGE_SIZE = 112


class GlmVision(QwenVision):
    image_token = IMAGE
    image_text = f"{IMAGE_START}{IMAGE}{IMAGE_END}"
    markup: tuple[str, ...] = ()
    unread: tuple[str, ...] = ANSWER_BOX
    processor = "Glm4vImageProcessor"
    bounded_frames = 2  # an image counts as two frames, which make one patch
    released_max_pixels = 4_816_896
    tower = Tower(name="Glm4vVisionModel", grid_on_device=True)

    def encode(self, model: Any, images: Sequence[Pixels], device: Any) -> ImageFeatures:
        """By the tower itself: the model around it would wait for the grids, which are on the device."""
        tower = model.base_model.visual
        values = to_device(torch.cat([image.values for image in images]), device)
        grids = [image.grid for image in images]
        grid, arguments = tower_arguments(tower, self.tower, grids, device)
        encoded = tower(values.to(tower.dtype), grid_thw=grid, return_dict=True, **arguments)
        return ImageFeatures(embeds=encoded.pooler_output)

    def is_projector(self, parameter: str) -> bool:
        """The convolution that merges patches, and the MLP after it."""
        return self.is_vision(parameter) and (
            ".merger." in parameter or ".downsample." in parameter
        )

    def tower_shape(self, model: Any) -> VisionShape:
        """The MLPs of its layers are as wide as the decoder."""
        vision = model.config.vision_config
        hidden, merge = vision.out_hidden_size, vision.spatial_merge_size**2
        return VisionShape(
            width=vision.hidden_size,
            layers=vision.depth,
            heads=vision.num_heads,
            inner=hidden,
            gated=True,
            activated=3,
            values=vision.in_channels * vision.temporal_patch_size * vision.patch_size**2,
            merge=merge,
            normed=2 * vision.hidden_size,
            projected=vision.hidden_size + (4 * hidden + 4 * vision.intermediate_size) // merge,
        )


def build_tokenizer(corpus: Iterable[str], vocab_size: int) -> Any:
    """A tokenizer (byte-level BPE) of at most `vocab_size` tokens, its merges learned from `corpus`."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

    vocab, merges = _qwen.learn_tokens(corpus, vocab_size - len(SPECIAL_TOKENS))
    rules = Qwen2Tokenizer().backend_tokenizer
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.normalizer, backend.pre_tokenizer = rules.normalizer, rules.pre_tokenizer
    backend.decoder = rules.decoder
    make: Any = PreTrainedTokenizerFast
    return make(
        tokenizer_object=backend,
        pad_token=END_OF_TEXT,
        eos_token=END_OF_TEXT,
        extra_special_tokens=list(SPECIAL_TOKENS),
        padding_side="left",
        chat_template=_qwen.read_template("glm4v.jinja"),
    )


def _mistakes(config: BuildConfig) -> list[str]:
    """The rules for sizes that the config breaks."""
    head = config.hidden_size // config.heads
    vision_head = config.vision_width // config.vision_heads
    smallest = BYTES + len(SPECIAL_TOKENS)
    rests = {  # rule -> a number that is 0 where it is kept
        "hidden_size: must be a multiple of heads": config.hidden_size % config.heads,
        "heads: must be a multiple of kv_heads": config.heads % config.kv_heads,
        "hidden_size: divided by heads, must be a multiple of 16": head % 16,  # half of it rotates
        "vision_width: must be a multiple of vision_heads": config.vision_width
        % config.vision_heads,
        "vision_width: divided by vision_heads, must be a multiple of 4": vision_head % 4,
        f"vocab_size: must be at least {smallest}": max(smallest - config.vocab_size, 0),
    }
    return [rule for rule, rest in rests.items() if rest]


def _model_config(config: BuildConfig, tokenizer: Any) -> Any:
    from transformers import Glm4vConfig

    id_of = tokenizer.convert_tokens_to_ids
    pairs = config.hidden_size // config.heads // 4  # that rotate, of which time has a quarter
    time, height = pairs // 4, 3 * pairs // 8
    return Glm4vConfig(
        text_config={
            "vocab_size": -(-len(tokenizer) // ROUND_VOCAB) * ROUND_VOCAB,
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "num_key_value_heads": config.kv_heads,
            "pad_token_id": id_of(END_OF_TEXT),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.5,
                "mrope_section": [time, height, pairs - time - height],
            },
        },
        vision_config={
            "depth": config.vision_layers,
            "hidden_size": config.vision_width,
            "num_heads": config.vision_heads,
            "out_hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "patch_size": VISION.patch,
            "image_size": IMAGE_SIZE,
        },
        image_token_id=id_of(IMAGE),
        video_token_id=id_of(VIDEO),
        image_start_token_id=id_of(IMAGE_START),
        image_end_token_id=id_of(IMAGE_END),
        video_start_token_id=id_of(VIDEO_START),
        video_end_token_id=id_of(VIDEO_END),
        tie_word_embeddings=True,
    )


VISION = GlmVision()

FAMILY = Family(
    vision=VISION,
    model_class="Glm4vForConditionalGeneration",
    other_classes=("Glm46VForConditionalGeneration",),
    refused={"Glm4vMoeForConditionalGeneration": EXPERTS, "Glm4vMoeTextModel": EXPERTS},
    model_config=_model_config,
    mistakes=_mistakes,
    build_tokenizer=build_tokenizer,
    end_tokens=(END_OF_TEXT, USER),
    unscaled=("patch_embed", "position_embedding"),
    box_unit="thousandths",
)
