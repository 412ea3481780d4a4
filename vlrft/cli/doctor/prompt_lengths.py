"""How long prompts are: the first real ones where the task's data are at hand, else the config's bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from vlrft.config import Config, PolicyConfig, StageConfig, TaskConfig
from vlrft.memory.shapes import PromptSize
from vlrft.policy.chat import Chat
from vlrft.policy.families import VisionFamily
from vlrft.policy.tiny import build_tokenizer
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import Prompt, Sample, VlrftError
from vlrft.schema.errors import ConfigError
from vlrft.vision.processor import load_image_processor

LOOKED_AT = 32  # prompts of a task
PLAYED = 4  # golds of a task with an environment
CORPUS_SAMPLES = 256  # as `assemble` takes for a built tokenizer


@dataclass(frozen=True, kw_only=True)
class TaskPrompts:
    """Sizes of a task's prompts, and where they come from."""

    sizes: tuple[PromptSize, ...]
    origin: str
    samples: int | None = None  # of the split
    turns: int = 1  # training rows of a play, each with a prompt of its own

    def some(self, count: int) -> tuple[PromptSize, ...]:
        """As many as asked for: all sizes in turn."""
        return tuple(self.sizes[k % len(self.sizes)] for k in range(count))

    def dealt(self, count: int, ranks: int) -> tuple[PromptSize, ...]:
        """The largest that one of so many ranks may get of so many: ⌈count / ranks⌉, each with its turns."""
        every = self.some(count * self.turns)
        own = math.ceil(count / ranks) * self.turns
        return every if ranks == 1 else tuple(sorted(every, key=_size, reverse=True)[:own])


def _size(prompt: PromptSize) -> tuple[int, int]:
    return prompt.tokens, prompt.patches


@contextmanager
def offline() -> Iterator[None]:
    """Within it the hub's client uses what it has stored and asks nobody."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def try_load_task(task: TaskConfig, split: str) -> LoadedTask | str:
    """The task with its data, or why they are not at hand. Nothing is downloaded."""
    try:
        with offline():
            return load_task(task, split)
    except ConfigError:
        raise
    except VlrftError as e:
        return str(e).splitlines()[0]


def stand_in_tokenizer(config: PolicyConfig, stage: StageConfig) -> Any:
    """A built policy's tokenizer: trained on the task's text, or where that is missing one of as many tokens as may be."""
    assert config.build is not None
    loaded = try_load_task(stage.task, "train")
    if isinstance(loaded, str):
        return SizedTokenizer(config.build.vocab_size)
    return build_tokenizer(config.build, loaded.text(CORPUS_SAMPLES))


class SizedTokenizer:
    """What `build_model` asks of a tokenizer, by size alone."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> int | list[int]:
        """The last ids: special tokens stand there."""
        if isinstance(tokens, str):
            return self.size - 1
        return [self.size - 1 - k for k in range(len(tokens))]


def chat_of(config: Config, tokenizer: Any, vision: VisionFamily | None) -> Chat | str:
    """A chat without a model, or why there is none."""
    policy = config.policy
    try:
        if policy.build is None:
            from vlrft.policy.pretrained import load_tokenizer

            source = str(Path(str(policy.model)).expanduser())
            with offline():
                tokenizer = load_tokenizer(source, trust_remote_code=policy.trust_remote_code)
                processor = None if vision is None else load_image_processor(source)
        elif isinstance(tokenizer, SizedTokenizer):
            return "no text to make a tokenizer from"
        else:
            processor = None if vision is None else vision.build_processor()
    except (VlrftError, OSError, ValueError) as e:
        return str(e).splitlines()[0]
    if vision is not None:
        vision.set_pixel_bounds(processor, policy.min_pixels, policy.max_pixels)
    return Chat(tokenizer, processor, vision)


def prompts_of(task: TaskConfig, split: str, chat: Chat | str, bounds: PromptSize) -> TaskPrompts:
    """The sizes of the first rendered prompts, or `bounds`."""
    if isinstance(chat, str):
        return TaskPrompts(sizes=(bounds,), origin=f"bounds of the config ({chat})")
    loaded = try_load_task(task, split)
    if isinstance(loaded, str):
        return TaskPrompts(sizes=(bounds,), origin=f"bounds of the config ({loaded})")
    plays = loaded.task.env is not None
    first = list(islice(iter(loaded.samples), PLAYED if plays else LOOKED_AT))
    try:
        found = _played(first, loaded, chat) if plays else _asked(first, chat)
    except (VlrftError, ImportError) as e:
        return TaskPrompts(sizes=(bounds,), origin=f"bounds of the config ({e})")
    sizes = [
        PromptSize(tokens=len(p.ids), patches=sum(len(i.values) for i in p.images)) for p in found
    ]
    low, high = min(s.tokens for s in sizes), max(s.tokens for s in sizes)
    spread = f"{low}" if low == high else f"{low} to {high}"
    return TaskPrompts(
        sizes=tuple(sizes),
        origin=f"{'gold plays of ' if plays else ''}the first {len(first)} of {task.name}/{split}: {spread} tokens",
        samples=len(loaded.samples),
        turns=math.ceil(len(sizes) / len(first)),
    )


def _asked(samples: Sequence[Sample], chat: Chat) -> list[Prompt]:
    return [chat.render(s.messages, s.images, name=s.id) for s in samples]


def _played(samples: Sequence[Sample], loaded: LoadedTask, chat: Chat) -> list[Prompt]:
    """What is read before the last answer of each row of the samples' gold plays."""
    from vlrft.rollout.demonstrations import play_demonstrations

    try:
        groups = play_demonstrations(loaded, samples, chat)
    finally:
        loaded.close()
    rows = [row for group in groups for r in group.rollouts for row in r.rows]
    return [
        Prompt(
            ids=(*row.prompt.ids, *(i for piece in row.pieces[:-1] for i in piece.ids)),
            images=(*row.prompt.images, *(i for piece in row.pieces for i in piece.images)),
        )
        for row in rows
    ]


def bounds(config: Config, limit: int, vision: VisionFamily | None) -> PromptSize:
    """The longest prompt that a run takes; with a multimodal policy one image, as far as its pixel bound allows."""
    if vision is None:
        return PromptSize(tokens=limit)
    return PromptSize(tokens=limit, patches=vision.most_patches(limit, config.policy.max_pixels))
