"""What both sides of vs_trl.py get: a saved policy, images, questions, recorded completions and rewards. No TRL here."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from PIL.Image import Image as PilImage

from benchmarks.vs_trl.cases import Case
from vlrft.config import BuildConfig, PolicyConfig
from vlrft.policy.families._qwen import SPECIAL_TOKENS
from vlrft.policy.load import load_policy

WORDS = (
    *("how", "many", "red", "blue", "green", "large", "small", "balls", "cubes", "rings", "stand"),
    *("left", "right", "above", "below", "behind", "the", "first", "second", "third", "shape"),
    *("in", "this", "picture", "and", "what", "is", "their", "sum"),
)
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Question:
    """A prompt with the completions and rewards that are replayed."""

    number: int
    text: str
    image: PilImage | None
    completions: tuple[tuple[int, ...], ...]  # [G] of C ids
    rewards: tuple[float, ...]  # [G]


def question(case: Case, number: int, ordinary: int) -> Question:
    """The `number`-th of a case; each has an image of its own, so that nothing is found in a cache.

    `ordinary`: ids below it are text. Rewards alternate 1, 0; the last `dead` prompts of a step all earn 1.
    """
    chance = random.Random(f"{SEED} {case.side} {number}")
    size = (case.side, case.side, 3)
    pixels = np.random.default_rng([SEED, number]).integers(0, 255, size, dtype=np.uint8)
    dead = number % case.prompts >= case.prompts - case.dead
    return Question(
        number=number,
        text=" ".join(chance.choices(WORDS, k=case.words)),
        image=Image.fromarray(pixels) if case.side else None,
        completions=tuple(
            tuple(chance.choices(range(ordinary), k=case.length)) for _ in range(case.group)
        ),
        rewards=tuple(1.0 if dead else float(1 - g % 2) for g in range(case.group)),
    )


def ordinary_tokens(tokenizer: object) -> int:
    """Ids below it are text: a built tokenizer has its special tokens at the end."""
    return len(tokenizer) - len(SPECIAL_TOKENS)  # type: ignore[arg-type]


def variety(text: str) -> float:
    """The reward of completions that are sampled: cheap, and hardly ever equal over a group."""
    return len(set(text)) / 100


def save_model(build: BuildConfig, vocabulary: int | None, folder: Path) -> None:
    """A seeded policy that both sides load, unless it is there already."""
    if (folder / "config.json").exists():
        return
    policy = load_policy(PolicyConfig(build=build, dtype="float32"), corpus=[" ".join(WORDS)] * 8, seed=SEED)  # fmt: skip
    if vocabulary is not None:
        torch.manual_seed(SEED)
        policy.model.resize_token_embeddings(vocabulary, mean_resizing=False)
    policy.save(folder)
