"""GLM-4.1V and GLM-4.6V-Flash: images as Qwen2-VL takes them, through a tower with gated MLPs, RMS norms and learned positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from vlrft.config import BuildConfig
from vlrft.distributed.cuda_settings import to_device
from vlrft.memory.shapes import VisionShape
from vlrft.policy.families import EXPERTS, Family, _qwen
from vlrft.policy.families._qwen import ROUND_VOCAB
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
    video_text = f"{VIDEO_START}{VIDEO}{VIDEO_END}"
    video_place = VIDEO
    video_processor = "Glm4vVideoProcessor"
    bounds_whole_video = True
    run_token = IMAGE
    bounded_frames = 2  # an image counts as two frames, which make one patch
    released_max_pixels = 4_816_896
    enlarges_sides = True
    tower = Tower(name="Glm4vVisionModel", grid_on_device=True)

    def encode(self, model: Any, images: Sequence[Pixels], device: Any) -> ImageFeatures:
        """By the tower itself: the model around it would wait for the grids, which are on the device."""
        tower = model.base_model.visual
        values = to_device(torch.cat([image.values for image in images]), device)
        grids = [image.grid for image in _frames_as_images(images)]
        grid, arguments = tower_arguments(tower, self.tower, grids, device)
        encoded = tower(values.to(tower.dtype), grid_thw=grid, return_dict=True, **arguments)
        return ImageFeatures(embeds=encoded.pooler_output)

    def video_token_id(self, model: Any) -> int:
        """The token of images: transformers tells a video's by the tokens around them."""
        token: int = model.config.image_token_id
        return token

    def write_video(self, seconds: Sequence[float], rows: int, merged: int) -> str:
        """Each row of patches is an image before its time, that of its first frame."""
        times = [*seconds[::merged], *[seconds[-1]] * rows][:rows]
        return "".join(f"{self.image_text}{self.write_time(time)}" for time in times)

    def write_time(self, seconds: float) -> str:
        return str(int(seconds))

    def positions(
        self, model: Any, places: Bool[np.ndarray, " L"], images: Sequence[Pixels]
    ) -> Int[Tensor, "A L"]:
        return super().positions(model, places, _frames_as_images(images))

    def model_inputs(
        self, places: Bool[Tensor, "B L"], images: Sequence[Pixels]
    ) -> dict[str, Tensor]:
        """Videos as their rows of patches, each an image: transformers takes no images beside videos, as both have the same
        tokens, and gives both the same features and positions."""
        return super().model_inputs(places, _frames_as_images(images))

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


class Glm46Vision(GlmVision):
    """GLM-4.6V writes times in tenths of a second, with their unit."""

    processor = "Glm46VImageProcessor"
    video_processor = "Glm46VVideoProcessor"

    def write_time(self, seconds: float) -> str:
        return f"{seconds:.1f} seconds"


def _frames_as_images(images: Sequence[Pixels]) -> list[Pixels]:
    """The images, and each video as an image for each of its rows in time."""
    stills: list[Pixels] = []
    for image in images:
        if image.video is None:
            stills.append(image)
            continue
        rows, height, width = image.grid
        one = replace(image, tokens=image.tokens // rows, grid=(1, height, width), video=None)
        stills += [replace(one, values=values) for values in image.values.chunk(rows)]
    return stills


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
            "attention_bias": True,  # as the released models say; transformers has them anyway, vLLM asks
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
    other_classes={"Glm46VForConditionalGeneration": Glm46Vision()},
    refused={"Glm4vMoeForConditionalGeneration": EXPERTS, "Glm4vMoeTextModel": EXPERTS},
    model_config=_model_config,
    mistakes=partial(_qwen.mistakes, head_multiple=16),  # half of a head rotates
    build_tokenizer=build_tokenizer,
    end_tokens=(END_OF_TEXT, USER),
    unscaled=("patch_embed", "position_embedding"),
    box_unit="thousandths",
)
