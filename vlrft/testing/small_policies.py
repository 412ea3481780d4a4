"""Small policies of random weights, and samples, groups and images for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.chat import Chat
from vlrft.policy.families import all_families
from vlrft.policy.logprobs import model_inputs
from vlrft.policy.policy import Policy
from vlrft.schema import (
    IMAGE,
    Frames,
    Group,
    Message,
    Piece,
    Prompt,
    Rollout,
    Sample,
    Slot,
    TrainingRow,
)


def sample(name: str, answer: object = None, /, **tags: str) -> Sample:
    """A text-only sample whose question is its name."""
    return Sample(
        id=name,
        messages=(Message(role="user", content=(name,)),),
        answer=answer,
        tags=tags,
    )


def group(
    name: str, rewards: Sequence[float], tokens: Sequence[Sequence[int]] | None = None
) -> Group:
    """A group with these rewards; rollout i has the tokens `tokens[i]`, by default [i + 1]."""
    rows = tokens or [[i + 1] for i in range(len(rewards))]
    question_sample = sample(name)
    rollouts = tuple(
        Rollout(
            sample=question_sample,
            rows=(
                TrainingRow(
                    prompt=Prompt(ids=tuple(name.encode())),
                    pieces=(Piece(ids=tuple(row), text="", logprobs=(-1.0,) * len(row)),),
                ),
            ),
            reward=reward,
        )
        for reward, row in zip(rewards, rows, strict=True)
    )
    return Group(sample=question_sample, rollouts=rollouts)


Family = str  # its name
FAMILIES = tuple(all_families())
NTSC = 29.97  # frames a second
CORPUS = ("Which digit is this? <answer>7</answer>", "How many 3s are there? <answer>12</answer>")


def tiny_config(family: Family, **settings: Any) -> PolicyConfig:
    """The config of a policy with about ten thousand weights; `settings`: further fields of `PolicyConfig`."""
    build = BuildConfig(
        family=family,
        hidden_size=64,
        layers=2,
        intermediate_size=96,
        vision_width=32,
        vision_layers=2,
        vision_heads=2,
        vocab_size=300,
    )
    return PolicyConfig(build=build, **settings)


def noise_image(width: int, height: int, seed: int = 0) -> Image.Image:
    """An RGB image of random pixels."""
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def noise_video(frames: int, width: int, height: int, seed: int = 0, *, every: int = 7) -> Frames:
    """Every so many frames of a video of random pixels at 29.97 frames a second."""
    pictures = np.random.default_rng(seed).integers(
        0, 255, (frames, height, width, 3), dtype=np.uint8
    )
    indices = [every * k for k in range(frames)]
    return Frames(
        pictures=pictures,
        indices=indices,
        seconds=[index / NTSC for index in indices],
        source_fps=NTSC,
        source_seconds=every * frames / NTSC,
    )


def ask(*content: str | Slot) -> tuple[Message, ...]:
    """A conversation of one user message."""
    return (Message(role="user", content=content),)


def group_of(chat: Chat, question: str, rewards: Sequence[float], answers: Sequence[str]) -> Group:
    """A group of answers to a text question, rendered by the chat; "" is an empty completion."""
    question_sample = sample(question)
    prompt = chat.render(question_sample.messages)
    rollouts = tuple(
        Rollout(
            sample=question_sample,
            rows=(
                TrainingRow(
                    prompt=prompt,
                    pieces=(Piece(ids=chat.answer_ids(text) if text else (), text=text),),
                ),
            ),
            reward=reward,
        )
        for reward, text in zip(rewards, answers, strict=True)
    )
    return Group(sample=question_sample, rollouts=rollouts)


def image_group(
    chat: Chat, question: str, rewards: Sequence[float], answers: Sequence[str], images: int = 1
) -> Group:
    """A group of answers to a question about `images` noise images of different sizes."""
    pictures = tuple(noise_image(56 + 28 * k, 56, seed=k) for k in range(images))
    question_sample = Sample(
        id=question, messages=ask(*[IMAGE] * images, question), images=pictures
    )
    prompt = chat.render(question_sample.messages, question_sample.images)
    rollouts = tuple(
        Rollout(
            sample=question_sample,
            rows=(
                TrainingRow(prompt=prompt, pieces=(Piece(ids=chat.answer_ids(text), text=text),)),
            ),
            reward=reward,
        )
        for reward, text in zip(rewards, answers, strict=True)
    )
    return Group(sample=question_sample, rollouts=rollouts)


def plain_generate(policy: Policy, prompt: Prompt, tokens: int) -> tuple[int, ...]:
    """The completion of transformers' own greedy generate for one unpadded prompt."""
    ids = torch.tensor([prompt.ids])
    inputs = model_inputs(policy, ids, torch.ones_like(ids), prompt.images)
    out = policy.model.eval().generate(
        **inputs,
        do_sample=False,
        max_new_tokens=tokens,
        suppress_tokens=sorted(policy.chat.banned_ids),
    )
    policy.model.train()
    return tuple(out[0, ids.shape[1] :].tolist())
