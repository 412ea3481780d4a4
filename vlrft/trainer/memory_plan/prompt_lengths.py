"""Prompt lengths: of the task's first prompts where its data are available, else the longest that the config allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from vlrft.config import Config, PolicyConfig, RolloutConfig, StageConfig, TaskConfig
from vlrft.memory.shapes import PromptSize
from vlrft.policy.chat import Chat
from vlrft.policy.families import TakesVideos, VisionFamily
from vlrft.policy.tiny import build_tokenizer
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import Prompt, Sample, VlrftError
from vlrft.schema.errors import ConfigError
from vlrft.vision.processor import load_image_processor, load_video_processor

UNBOUNDED = 2**40  # pixels
RENDERED = 32  # samples of a task whose prompts are rendered
PLAYED = 4  # samples of a task with an environment whose gold answers are played


@dataclass(frozen=True, kw_only=True)
class TaskPrompts:
    """Sizes of a task's prompts."""

    sizes: tuple[PromptSize, ...]
    origin: str  # where they come from
    samples: int | None = None  # of the split; None: unknown
    turns: int = 1  # training rows of an episode, each with its prompt
    episodes: bool = False  # the task has an environment

    def largest_shard(self, count: int, ranks: int) -> tuple[PromptSize, ...]:
        """The largest prompts that one of `ranks` ranks may get of `count`: ⌈count / ranks⌉, each with its turns. All sizes
        are used in turn."""
        sizes = tuple(self.sizes[k % len(self.sizes)] for k in range(count * self.turns))
        if ranks == 1:
            return sizes
        largest = sorted(sizes, key=lambda size: (size.tokens, size.patches), reverse=True)
        return tuple(largest[: math.ceil(count / ranks) * self.turns])

    def by_context(
        self, sizes: Sequence[PromptSize], answers: int
    ) -> tuple[tuple[PromptSize, ...], int]:
        """Prompts of these sizes with `answers` completions each: (prompts, completions of each). Episodes of one sample have
        different contexts from their second turn on, so that each is a prompt with one completion."""
        if not self.episodes:
            return tuple(sizes), answers
        return tuple(size for size in sizes for _ in range(answers)), 1


@contextmanager
def offline() -> Iterator[None]:
    """The hub's client uses its cache and sends no request."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def try_load_task(task: TaskConfig, split: str) -> LoadedTask | str:
    """The task with its data, or the reason why they are not available. Nothing is downloaded.

    Raises what a run would raise for a mistake of the user, such as a reward of a wrong signature.
    """
    try:
        with offline():
            return load_task(task, split)
    except VlrftError as e:
        if e.exit_code == ConfigError.exit_code:
            raise
        return str(e).splitlines()[0]


def make_plan_tokenizer(
    config: PolicyConfig, stage: StageConfig, loaded: LoadedTask | None = None
) -> Any:
    """A built policy's tokenizer: trained on the task's text, or a `SizedTokenizer` where the data are not available.
    `loaded`: the task, where it is loaded already."""
    assert config.build is not None
    found = try_load_task(stage.task, "train") if loaded is None else loaded
    if isinstance(found, str):
        return SizedTokenizer(config.build.vocab_size)
    return build_tokenizer(config.build, found.text())


class SizedTokenizer:
    """A substitute for a tokenizer with `size` tokens, for `build_model` alone."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """The last ids of the vocabulary, where special tokens are."""
        if isinstance(tokens, str):
            return self.size - 1
        return [self.size - 1 - k for k in range(len(tokens))]


def make_chat(
    config: Config, tokenizer: Any, vision: VisionFamily | None, model: Any
) -> Chat | str:
    """A chat without a model, or the reason why there is none."""
    policy = config.policy
    videos: Callable[[], Any] | None = None
    try:
        if policy.build is None:
            from vlrft.policy.pretrained import load_tokenizer

            source = str(Path(str(policy.model)).expanduser())
            with offline():
                tokenizer = load_tokenizer(source, trust_remote_code=policy.trust_remote_code)
                processor = None if vision is None else load_image_processor(source)
                videos = partial(load_video_processor, source)
        elif isinstance(tokenizer, SizedTokenizer):
            return "no text to make a tokenizer from"
        else:
            processor = None if vision is None else vision.build_processor()
            if isinstance(vision, TakesVideos):
                videos = partial(vision.build_video_processor, processor)
    except (VlrftError, OSError, ValueError) as e:
        return str(e).splitlines()[0]
    if vision is not None:
        vision.set_pixel_bounds(processor, policy.min_pixels, policy.max_pixels)
    return Chat(
        tokenizer,
        processor,
        vision,
        image_token_id=None if vision is None else model.config.image_token_id,
        video_token_id=vision.video_token_id(model) if isinstance(vision, TakesVideos) else None,
        video_processor=videos,
        frame_bounds=(policy.min_pixels, policy.max_pixels),
        max_prompt_pixels=policy.max_prompt_pixels,
    )


def measure_prompts(
    task: TaskConfig,
    split: str,
    chat: Chat | str,
    longest: PromptSize,
    loaded: LoadedTask | None = None,
) -> TaskPrompts:
    """The sizes of the task's first prompts, or `longest` alone where the data are not available. `loaded`: the task, where
    it is loaded already, as in a run, whose rows can then be read: for one that cannot, its error is raised. Its environments
    are left open."""
    if isinstance(chat, str):
        return TaskPrompts(sizes=(longest,), origin=f"bounds of the config ({chat})")
    if loaded is not None:
        return _measure(loaded, split, chat)
    found = try_load_task(task, split)
    if isinstance(found, str):
        return TaskPrompts(sizes=(longest,), origin=f"bounds of the config ({found})")
    try:
        return _measure(found, split, chat)
    except (VlrftError, ImportError) as e:
        return TaskPrompts(
            sizes=(longest,),
            origin=f"bounds of the config ({e})",
            episodes=found.task.env is not None,
        )
    finally:
        found.close()


def _measure(loaded: LoadedTask, split: str, chat: Chat) -> TaskPrompts:
    has_env = loaded.task.env is not None
    first = list(islice(iter(loaded.samples), PLAYED if has_env else RENDERED))
    prompts = _play_gold(first, loaded, chat) if has_env else _render(first, chat)
    # The frames that an environment shows are its own, and are not counted.
    videos = [()] * len(prompts) if has_env else [s.shown_videos for s in first]
    sizes = [
        PromptSize(
            tokens=len(p.ids),
            patches=sum(len(i.values) for i in p.images),
            frames=sum(video.pictures.nbytes for video in shown),
        )
        for p, shown in zip(prompts, videos, strict=True)
    ]
    low, high = min(s.tokens for s in sizes), max(s.tokens for s in sizes)
    tokens = f"{low}" if low == high else f"{low} to {high}"
    what = "gold episodes of " if has_env else ""
    return TaskPrompts(
        sizes=tuple(sizes),
        origin=f"{what}the first {len(first)} of {loaded.task.name}/{split}: {tokens} tokens",
        samples=len(loaded.samples),
        turns=math.ceil(len(sizes) / len(first)),
        episodes=has_env,
    )


def _render(samples: Sequence[Sample], chat: Chat) -> list[Prompt]:
    return [
        chat.render(s.shown_messages, s.shown_images, s.shown_videos, name=s.id) for s in samples
    ]


def _play_gold(samples: Sequence[Sample], loaded: LoadedTask, chat: Chat) -> list[Prompt]:
    """For each training row of the samples' gold episodes, all that precedes its last answer."""
    from vlrft.rollout.demonstrations import play_demonstrations

    groups = play_demonstrations(loaded, samples, chat)
    rows = [row for group in groups for r in group.rollouts for row in r.rows]
    return [
        Prompt(
            ids=(*row.prompt.ids, *(i for piece in row.pieces[:-1] for i in piece.ids)),
            images=(*row.prompt.images, *(i for piece in row.pieces for i in piece.images)),
        )
        for row in rows
    ]


def longest_prompt(
    policy: PolicyConfig, rollout: RolloutConfig, vision: VisionFamily | None
) -> PromptSize:
    """The longest prompt that a run accepts; for a multimodal policy with `rollout.max_images` images as large as its bounds of
    pixels allow, or a single one where that is not set."""
    limit, images = rollout.max_prompt_tokens, rollout.max_images or 1
    if vision is None:
        return PromptSize(tokens=limit)
    alone = vision.most_patches(limit, policy.max_pixels)
    together = vision.most_patches(limit, policy.max_prompt_pixels or UNBOUNDED)
    return PromptSize(tokens=limit, patches=min(images * alone, together))
