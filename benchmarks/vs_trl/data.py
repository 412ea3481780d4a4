"""The input of both sides: a saved policy, images, questions, recorded completions and rewards. Does not import TRL."""

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


def question(case: Case, number: int, text_ids: int) -> Question:
    """The `number`-th question of a case; every one has a different image, so that no cache has a hit.

    Ids below `text_ids` are text. Rewards alternate 1, 0; in the last `without_signal` prompts of a step all are 1.
    """
    rng = random.Random(f"{SEED} {case.side} {number}")
    size = (case.side, case.side, 3)
    pixels = np.random.default_rng([SEED, number]).integers(0, 255, size, dtype=np.uint8)
    equal = number % case.prompts >= case.prompts - case.without_signal
    return Question(
        number=number,
        text=" ".join(rng.choices(WORDS, k=case.words)),
        image=Image.fromarray(pixels) if case.side else None,
        completions=tuple(
            tuple(rng.choices(range(text_ids), k=case.length)) for _ in range(case.group)
        ),
        rewards=tuple(1.0 if equal else float(1 - g % 2) for g in range(case.group)),
    )


def count_text_ids(tokenizer: object) -> int:
    """The number of text tokens; their ids come first, since a built tokenizer has its special tokens at the end."""
    return len(tokenizer) - len(SPECIAL_TOKENS)  # type: ignore[arg-type]


def variety(text: str) -> float:
    """The reward of sampled completions: cheap, and hardly ever equal over a group."""
    return len(set(text)) / 100


def save_model(build: BuildConfig, vocabulary: int | None, folder: Path) -> None:
    """Save a seeded policy for both sides, unless the folder has one already."""
    if (folder / "config.json").exists():
        return
    policy = load_policy(PolicyConfig(build=build, dtype="float32"), corpus=[" ".join(WORDS)] * 8, seed=SEED)  # fmt: skip
    if vocabulary is not None:
        torch.manual_seed(SEED)
        policy.model.resize_token_embeddings(vocabulary, mean_resizing=False)
    policy.save(folder)
