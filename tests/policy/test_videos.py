"""Videos in prompts: tokens, pixels and positions as transformers has them, in training and in sampling."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from vlrft.config import PolicyConfig
from vlrft.policy.chat import Chat
from vlrft.policy.families import TakesVideos, vision_families, vision_family
from vlrft.policy.families._qwen_video import frame_times
from vlrft.policy.load import load_policy
from vlrft.policy.logprobs import packed_logprobs
from vlrft.policy.packing import PackItem, pack
from vlrft.policy.policy import Policy
from vlrft.rollout.engines import Request, Sampling
from vlrft.rollout.engines.hf import HfEngine
from vlrft.rollout.engines.vllm.served_policy import make_wire
from vlrft.schema import IMAGE, VIDEO, DataError, Frames, Message, Prompt, Sample, Slot
from vlrft.testing.packed_equality import assert_packed_equals_replicated
from vlrft.testing.small_policies import (
    CORPUS,
    ask,
    noise_image,
    noise_video,
    plain_generate,
    tiny_config,
)
from vlrft.vision import processor

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v")
PROCESSORS = {
    "qwen2_vl": "Qwen2VLProcessor",
    "qwen2_5_vl": "Qwen2_5_VLProcessor",
    "qwen3_vl": "Qwen3VLProcessor",
    "qwen3_5": "Qwen3VLProcessor",
    "glm4v": "Glm4vProcessor",
    "glm46v": "Glm46VProcessor",  # of family glm4v
}


def clip(frames: int, width: int = 70, height: int = 50) -> Frames:
    """By default a frame is no multiple of patches."""
    return noise_video(frames, width, height, seed=frames)


@cache
def small(family: str) -> Policy:
    config = tiny_config(family, dtype="float64", min_pixels=784, max_pixels=6272)
    return load_policy(config, corpus=CORPUS, seed=0)


def prompts(policy: Policy) -> list[Prompt]:
    """A video of an even, one of an odd number of frames, beside images, and two of different sizes."""
    render = policy.chat.render
    picture = noise_image(56, 84)
    return [
        render(ask("What happens? ", VIDEO, "When?"), (), [clip(4)]),
        render(
            ask(IMAGE, "Is it in", VIDEO, "?", IMAGE), [picture, noise_image(28, 28)], [clip(5)]
        ),
        render(ask(VIDEO, "or", VIDEO, "?"), (), [clip(2, 50, 130), clip(7)]),
        render(ask(IMAGE, "?"), [picture]),
    ]


def items(policy: Policy) -> tuple[list[PackItem], Tensor]:
    rows = tuple(policy.chat.answer_ids(text)[:4] for text in ("seven", "No"))
    packed = [PackItem(prompt=prompt, rows=rows) for prompt in prompts(policy)]
    longest = max(map(len, rows))
    mask = torch.tensor([[t < len(row) for t in range(longest)] for _ in packed for row in rows])
    return packed, mask


def chat_with_own_bounds(name: str) -> Chat:
    """A chat with the bounds of its family's processors."""
    if name in FAMILIES:
        return load_policy(tiny_config(name), corpus=CORPUS).chat
    import transformers

    policy = load_policy(tiny_config("glm4v"), corpus=CORPUS)
    config = transformers.Glm46VConfig(**policy.model.config.to_dict() | {"model_type": name})
    with torch.device("meta"):
        vision = vision_family(transformers.Glm46VForConditionalGeneration(config))
    assert vision is not None
    assert isinstance(vision, TakesVideos)
    processor = vision.build_processor()
    return Chat(
        policy.chat.tokenizer,
        processor,
        vision,
        video_token_id=policy.chat.video_token_id,
        video_processor=lambda: vision.build_video_processor(processor),
    )


@pytest.mark.parametrize("family", PROCESSORS)
@pytest.mark.parametrize("frames", [(4,), (2, 7)])
def test_a_prompt_is_that_of_transformers_processor(family: str, frames: tuple[int, ...]) -> None:
    """Ids, pixels and grids, of odd and even numbers of frames."""
    import transformers

    chat = chat_with_own_bounds(family)
    clips = [clip(number) for number in frames]
    content: list[str | Slot] = ["What happens?", *[VIDEO] * len(clips), "And?"]
    prompt = chat.render(ask(*content), (), clips)
    assert chat.pixels is not None
    processor = getattr(transformers, PROCESSORS[family])(
        chat.image_processor,
        chat.tokenizer,
        chat.pixels.video_processor,
        chat_template=chat.tokenizer.chat_template,
    )
    parts: list[dict[str, Any]] = [
        {"type": "video"} if part is VIDEO else {"type": "text", "text": part} for part in content
    ]
    text = processor.apply_chat_template(
        [{"role": "user", "content": parts}], tokenize=False, add_generation_prompt=True
    )
    metadata = [
        {
            "total_num_frames": round(c.source_seconds * c.source_fps),
            "fps": c.source_fps,
            "frames_indices": list(c.indices),
            "duration": c.source_seconds,
        }
        for c in clips
    ]
    expected = processor(
        text=[text],
        videos=[torch.from_numpy(c.pictures).permute(0, 3, 1, 2) for c in clips],
        video_metadata=metadata,
        do_sample_frames=False,
    )
    assert list(prompt.ids) == list(expected["input_ids"][0])
    pixels = torch.cat([video.values for video in prompt.images])
    assert torch.equal(pixels, torch.as_tensor(expected["pixel_values_videos"]))
    assert [v.grid for v in prompt.images] == [
        tuple(map(int, grid)) for grid in expected["video_grid_thw"]
    ]
    intervals = [v.video.interval for v in prompt.images if v.video]
    assert intervals == pytest.approx(
        [float(s) for s in expected.get("second_per_grid_ts", intervals)]
    )


@pytest.mark.parametrize("family", PROCESSORS)
def test_a_video_is_measured_as_it_is_processed(family: str) -> None:
    """Its tokens and its text, whatever its size, its number of frames and the bounds of a frame's area."""
    chat = chat_with_own_bounds(family)
    assert chat.pixels is not None
    for bounds in ((None, None), (784, 1568), (6272, 9408)):
        chat.pixels._frame_bounds = bounds
        for frames, size in ((4, (70, 50)), (7, (30, 140)), (2, (57, 43))):
            video = clip(frames, *size)
            (pixels,) = chat.pixels.process_videos([video])
            assert chat.video_measure()(video) == (pixels.tokens, pixels.video)


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_log_probs_and_gradients_are_those_of_transformers(family: str) -> None:
    policy = small(family)
    assert_packed_equals_replicated(policy, *items(policy))


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_completions_are_those_of_generate(family: str) -> None:
    policy = small(family)
    for k, prompt in enumerate(prompts(policy)):
        request = Request(id=f"{k}", prompt=prompt, seeds=(0,))
        [(piece,)] = HfEngine(policy).generate([request], Sampling(max_tokens=5, temperature=0.0))
        assert piece.ids == plain_generate(policy, prompt, 5)[: len(piece.ids)]


def test_glm_gives_videos_the_log_probs_of_transformers_own_video_inputs() -> None:
    """vlrft hands its rows of patches over as images, which transformers takes beside images."""
    policy = small("glm4v")
    prompt = policy.chat.render(ask("When?", VIDEO), (), [clip(5)])
    (video,) = prompt.images
    ids = torch.tensor([prompt.ids])
    places = policy.backbone.find_places(ids)
    with torch.no_grad():
        expected = policy.model(
            input_ids=ids,
            mm_token_type_ids=2 * places.int(),
            pixel_values_videos=video.values,
            video_grid_thw=torch.tensor([video.grid]),
        ).logits
        ours = policy.model(input_ids=ids, **policy.backbone.model_inputs(ids, [video])).logits
    assert torch.equal(ours, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_video_is_encoded_once_for_a_group_and_kept_by_a_frozen_tower(family: str) -> None:
    config = tiny_config(family, freeze=("vision", "projector"), min_pixels=784, max_pixels=784)
    policy = load_policy(config, corpus=CORPUS, seed=0)
    prompt = policy.chat.render(ask(VIDEO, "?"), (), [clip(4)])
    rows = ((10, 11, 12), (10, 12), (13,))
    item = PackItem(prompt=prompt, rows=rows)
    packed = pack([item, item], torch.ones(6, 1, dtype=torch.bool), policy.backbone, pad_id=0)
    assert packed.images.distinct == prompt.images
    mask = torch.ones(3, 1, dtype=torch.bool)
    encoder = policy.backbone.image_encoder
    assert encoder is not None
    once = patch.object(type(encoder.vision), "encode", wraps=None, autospec=True)
    real = type(encoder.vision).encode
    with once as encode, torch.no_grad():
        encode.side_effect = real
        for _ in range(2):
            packed_logprobs(policy, [item], mask=mask, temperature=1.0)
    assert encode.call_count == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_videos_shown_by_an_environment_are_trained_on(family: str) -> None:
    policy = small(family)
    chat = policy.chat
    answer = chat.answer_ids("7")
    prompt = chat.render(ask(VIDEO, "Go on"), (), [clip(2)])
    shown = chat.follow(answer, ask(IMAGE, "and", VIDEO), [noise_image(28, 28)], [clip(3)])
    row = (*answer, *shown.ids, *answer)
    item = PackItem(prompt=prompt, rows=(row,), images=(shown.images,))
    actions = [True] * len(answer) + [False] * len(shown.ids) + [True] * len(answer)
    assert_packed_equals_replicated(policy, [item], torch.tensor([actions]))


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_a_saved_policy_shows_a_video_as_before(family: str, tmp_path: Path) -> None:
    policy = small(family)
    before = policy.chat.render(ask(VIDEO, "?"), (), [clip(5)])
    policy.save(tmp_path)
    loaded = load_policy(
        PolicyConfig(model=str(tmp_path), dtype="float64", min_pixels=784, max_pixels=6272)
    )
    after = loaded.chat.render(ask(VIDEO, "?"), (), [clip(5)])
    assert after.ids == before.ids
    assert torch.equal(after.images[0].values, before.images[0].values)


def test_a_policy_that_was_shown_pictures_alone_takes_videos_after_loading_as_before(
    tmp_path: Path,
) -> None:
    policy = load_policy(tiny_config("qwen3_vl"), corpus=CORPUS)
    policy.save(tmp_path)
    loaded = load_policy(PolicyConfig(model=str(tmp_path)))
    before, after = (
        chat.render(ask(VIDEO, "?"), (), [clip(5)]) for chat in (policy.chat, loaded.chat)
    )
    assert after.ids == before.ids
    assert torch.equal(after.images[0].values, before.images[0].values)


def test_times_follow_from_the_numbers_of_frames_where_the_rate_is_constant() -> None:
    constant = replace(clip(3), indices=[0, 1, 2], seconds=[0.0, 1 / 3, 2 / 3], source_fps=3.0)
    rounded = replace(constant, seconds=[0.0, 0.33333, 0.66667])
    assert frame_times(rounded) == [0.0, 1 / 3, 2 / 3]
    varying = replace(constant, seconds=[0.0, 0.1, 2.0])
    assert frame_times(varying) == [0.0, 0.1, 2.0]
    vision = vision_families()["qwen3_vl"]
    assert isinstance(vision, TakesVideos)
    chat = small("qwen3_vl").chat
    (video,) = chat.render(ask(VIDEO), (), [varying]).images
    assert video.video is not None
    assert video.video.text.startswith("<0.1 seconds>")  # between 0 and 0.1
    assert "<2.0 seconds>" in video.video.text


def test_a_question_that_spells_a_video_has_no_place_for_one() -> None:
    chat = small("qwen3_vl").chat
    prompt = chat.render(ask("Is <|video_pad|> a token?", VIDEO), (), [clip(2)])
    assert prompt.ids.count(int(chat.video_token_id or -1)) == prompt.images[0].tokens


@pytest.mark.parametrize(
    ("family", "videos", "problem"),
    [
        ("qwen2_vl", [], "a: 1 video slots in the messages, but 0 videos"),
        ("qwen2", [clip(2)], "a: a video, but this policy takes text only"),
        ("qwen3_vl", [clip(1)], r"a: video 0 \(1 frames of 70 x 50 pixels\): t:1 must be larger"),
        ("qwen2_vl", [clip(2, 900, 3)], r"a: video 0 \(2 frames of 900 x 3 pixels\): absolute asp"),
    ],
)
def test_videos_that_a_policy_cannot_take_are_refused_by_name(
    family: str, videos: list[Frames], problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        small(family).chat.render(ask(VIDEO), (), videos, name="a")


def test_without_torchvision_videos_are_refused_and_images_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chat = load_policy(tiny_config("qwen3_vl"), corpus=CORPUS).chat
    monkeypatch.setattr(
        processor, "prepare_torchvision", lambda: processor.Torchvision(state="absent")
    )
    assert chat.render(ask(IMAGE), [noise_image(56, 56)]).images
    with pytest.raises(
        DataError, match=r"video 0: .* \(torchvision is not installed\); it needs to"
    ):
        chat.render(ask(VIDEO), (), [clip(2)])


def test_a_template_without_videos_is_refused() -> None:
    tokenizer = deepcopy(small("qwen2_vl").chat.tokenizer)
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }}{% endfor %}"
    whole = small("qwen2_vl").chat
    chat = Chat(
        tokenizer,
        whole.image_processor,
        whole.vision,
        video_token_id=whole.video_token_id,
        video_processor=lambda: whole.pixels and whole.pixels.video_processor,
    )
    whole.render(ask(VIDEO), (), [clip(2)])
    with pytest.raises(DataError, match="0 video placeholders in the rendered prompt for 1 videos"):
        chat.render(ask(VIDEO), (), [clip(2)])


def test_a_plain_prompt_and_prefetching_take_videos() -> None:
    chat = small("qwen2_vl").chat
    sample = Sample(
        id="a", messages=(Message(role="plain", content=(VIDEO, "?")),), videos=(clip(2),)
    )
    ahead = chat.process(sample)
    prompt = chat.render(sample.messages, (), sample.videos)
    assert prompt.images[0] is ahead[0]
    assert prompt.ids[1:-2] == (chat.video_token_id,) * ahead[0].tokens


def test_vllm_is_sent_no_video() -> None:
    policy = small("qwen2_vl")
    prompt = policy.chat.render(ask(VIDEO, "?"), (), [clip(2)])
    with pytest.raises(DataError, match="a prompt with a video: vlrft does not send videos to vLL"):
        make_wire(policy).request(prompt, (), 0, Sampling(max_tokens=1), None)
