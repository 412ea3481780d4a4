"""GLM-4V: its classes, prompts, turns, and bounds of pixels."""

from __future__ import annotations

import io
import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Tiny
from vlrft.config import PolicyConfig
from vlrft.data import Row
from vlrft.data.clips import ClipTimes
from vlrft.data.row import Picture
from vlrft.policy.families import all_families, model_family
from vlrft.policy.families.glm4v import FAMILY
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import self_check
from vlrft.policy.packing import PackItem
from vlrft.policy.policy import Policy
from vlrft.rollout.long_prompts import find_long_prompt
from vlrft.schema import IMAGE, VIDEO, Message, Resize, Sample
from vlrft.testing.small_policies import ask, noise_image, noise_video
from vlrft.vision.boxes import resized_size
from vlrft.vision.limits import MAX_RATIO
from vlrft.vision.video.frames import FrameRule

MASK = torch.ones(2, 3, dtype=torch.bool)


@pytest.fixture
def policy(tiny: Tiny) -> Policy:
    return tiny("glm4v")


def test_glm_4_6v_is_of_the_family(policy: Policy, tmp_path: Path) -> None:
    """transformers has a class of its own for it, with the same parts."""
    import transformers

    config = policy.model.config.to_dict() | {"model_type": "glm46v"}
    make: Any = transformers.Glm46VForConditionalGeneration
    model = make(transformers.Glm46VConfig(**config))
    model.load_state_dict(policy.model.state_dict())
    model.generation_config = policy.model.generation_config
    model.save_pretrained(tmp_path)
    video = noise_video(4, 56, 56)
    policy.chat.render(ask(VIDEO), (), [video])  # with its processor, which is saved too
    policy.chat.save(tmp_path)
    loaded = load_policy(PolicyConfig(model=str(tmp_path), dtype="float32"))
    assert type(loaded.model) is make
    assert model_family(loaded.model) is all_families()["glm4v"]
    prompt = loaded.chat.render(ask(IMAGE, "or", IMAGE), [noise_image(96, 64), noise_image(60, 60)])
    items = [PackItem(prompt=prompt, rows=((5, 6, 7), (8, 9, 10)))]
    assert self_check(loaded, items, mask=MASK, temperature=1.0) <= 1e-5
    text = loaded.chat.tokenizer.decode(loaded.chat.render(ask(VIDEO), (), [video]).ids)
    assert text.count("<|end_of_image|>") == text.count(" seconds") == 2


def test_the_config_says_that_attention_has_biases(policy: Policy, tmp_path: Path) -> None:
    """transformers has them whatever the config says; vLLM would leave them out."""
    policy.model.config.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["text_config"]["attention_bias"]
    assert any(name.endswith("q_proj.bias") for name, _ in policy.model.named_parameters())


def test_a_role_s_token_ends_a_turn_and_opens_the_next(policy: Policy) -> None:
    chat = policy.chat
    user, ends = (chat.tokenizer.convert_tokens_to_ids(t) for t in ("<|user|>", "<|endoftext|>"))
    asked = chat.render((Message(role="system", content=("Be brief.",)), *ask(IMAGE, "Digit?")), [noise_image(56, 56)])  # fmt: skip
    image = "<|image|>" * 9
    assert chat.tokenizer.decode(asked.ids) == (
        "[gMASK]<sop><|system|>\nBe brief.<|user|>\n"
        f"<|begin_of_image|>{image}<|end_of_image|>Digit?<|assistant|>\n"
    )
    assert {user, ends} == chat.end_ids
    opened = "\nSure?<|assistant|>\n"
    assert chat.tokenizer.decode(chat.follow((5, user), ask("Sure?")).ids) == opened
    for last in ((5, ends), (5,)):
        follow = chat.tokenizer.decode(chat.follow(last, ask("Sure?")).ids)
        assert follow == "<|user|>" + opened
    assert chat.decode(chat.answer_ids("It is <|begin_of_box|>7<|end_of_box|>")) == "It is 7"


@pytest.mark.parametrize("name", ["Glm4vForConditionalGeneration", *FAMILY.other_classes])
def test_sides_below_a_token_are_enlarged_as_by_the_processor(name: str) -> None:
    """Such as lines of text that were cut out for reading."""
    vision = FAMILY.other_classes.get(name, FAMILY.vision)
    assert vision is not None
    processor = vision.build_processor()
    vision.set_pixel_bounds(processor, 3136, 401_408)
    rule = vision.resize(processor)
    assert rule is not None
    assert rule != Resize(min_pixels=3136, max_pixels=401_408)  # of packs with boxes: resized
    draw = random.Random(0)
    sizes = [(1500, 20), (200, 1), (1, 200), (13, 7), (27, 27), (28, 28), (5000, 26)]
    sizes += [(draw.randint(1, 40), draw.randint(1, 100)) for _ in range(30)]
    for width, height in sizes:
        if max(width, height) > MAX_RATIO * min(width, height):
            continue
        _, high, wide = vision.process(processor, noise_image(width, height), "image").grid
        assert (14 * wide, 14 * high) == resized_size(width, height, **asdict(rule))


def test_a_line_of_text_is_counted_as_it_is_rendered(policy: Policy) -> None:
    chat, line = policy.chat, noise_image(1500, 20)
    content = io.BytesIO()
    line.save(content, "PNG")
    row = Row(id="r/1", question="", answer="", pictures=(Picture(name="", read=content.getvalue),))
    messages = ask(IMAGE, "Read.")
    length = len(chat.render(messages, [line]).ids)
    sample = Sample(id="r/1", messages=messages)
    defects = [
        find_long_prompt(row, sample, chat, limit, FrameRule(), ClipTimes())
        for limit in (length, length - 1)
    ]
    assert [defect is None for defect in defects] == [True, False]


@pytest.mark.parametrize("size", [(300, 233), (57, 57), (600, 400)])
def test_bounds_are_areas_of_one_image(policy: Policy, size: tuple[int, int]) -> None:
    """The processor's own are for two frames."""
    vision = policy.backbone.vision
    assert vision is not None
    processor = vision.build_processor()
    vision.set_pixel_bounds(processor, 20_000, 150_000)
    rule = vision.resize(processor)
    assert rule is not None
    assert (rule.min_pixels, rule.max_pixels, rule.factor) == (20_000, 150_000, 28)
    _, high, wide = vision.process(processor, noise_image(*size), "image").grid
    assert (14 * wide, 14 * high) == resized_size(*size, 20_000, 150_000)
