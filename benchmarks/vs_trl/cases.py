"""The cases: which work is measured, at which shapes, and the ratio to reach."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vlrft.config import BuildConfig

Family = Literal["qwen2_vl", "qwen2_5_vl"]
Scale = Literal["small", "full"]
Quantity = Literal["update", "rollout", "step", "memory"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case, a line of the table."""

    name: str
    work: str  # in words, for the table
    quantity: Quantity
    side: int  # of the image in pixels; 0: text only
    words: int  # of the question
    length: int  # C: tokens of every completion
    group: int  # G
    prompts: int  # per step
    goal: float  # TRL / vlrft at least this; for memory vlrft / TRL at most this
    without_signal: int = 0  # prompts of a step whose completions all have the same reward
    vocabulary: int | None = None  # rows of the embedding; None: those that the tokenizer needs
    trl_rows: int = 1  # completions per micro-batch on TRL's side; see theirs.py
    our_groups: int | None = (
        None  # groups per micro-batch on vlrft's side; None: as many as the default token limit allows
    )
    trl_head: Literal["completions", "released"] = "completions"  # see theirs.py
    times_of: str | None = None  # the case whose ratio `goal` multiplies

    @property
    def rows(self) -> int:
        return self.prompts * self.group


QWEN_VOCABULARY = 151_936
ON_REQUEST = ("P6r",)  # cases that run only when they are named
P1 = Case(
    name="P1", work="update, a 448 × 448 image", quantity="update",
    side=448, words=20, length=64, group=8, prompts=2, goal=4.0,
)  # fmt: skip
P2 = replace(P1, name="P2", work="update, an 840 × 840 image", side=840, prompts=1, goal=5.0)
P6 = replace(
    P1, name="P6", work="peak memory of the update, vocabulary 151,936, a group at once", quantity="memory",
    prompts=1, vocabulary=QWEN_VOCABULARY, trl_rows=8, our_groups=1, goal=0.5,
)  # fmt: skip
CASES = (
    P1,
    P2,
    replace(P1, name="P3", work="P1, half of the groups without signal", without_signal=1, goal=1.7, times_of="P1"),
    replace(P2, name="P4", work="rollout, an 840 × 840 image", quantity="rollout", goal=1.6),
    replace(P1, name="P5", work="whole step: processing, rollout, reward, update", quantity="step", goal=3.0),
    P6,
    replace(P6, name="P6r", work="P6, TRL's head as released", trl_head="released"),
    replace(P6, name="P6s", work="P6, TRL by single rows", trl_rows=1),
    Case(
        name="P7", work="update, text only, short prompts", quantity="update",
        side=0, words=8, length=64, group=2, prompts=8, goal=1.0, trl_rows=8,
    ),
)  # fmt: skip

# As in Qwen2-VL-2B, an image token costs the vision model twice what it costs the backbone, heads have 128 and 80
# dimensions, and the backbone's MLP is 5.8 times as wide as its hidden states.
FULL = BuildConfig(
    hidden_size=512, layers=3, heads=4, kv_heads=2, intermediate_size=2976,
    vision_width=480, vision_layers=4, vision_heads=6, init_scale=1.0,
)  # fmt: skip
SMALL = BuildConfig(
    hidden_size=64, layers=2, heads=4, kv_heads=2, intermediate_size=96,
    vision_width=32, vision_layers=2, vision_heads=2, init_scale=1.0,
)  # fmt: skip
SMALL_VOCABULARY = 4096
SHRINK = {448: 112, 840: 224}  # sides of images at small scale


@dataclass(frozen=True, kw_only=True)
class Job:
    """A case with its paths and limits, as each process receives it."""

    case: Case
    folder: Path  # the saved policy
    scratch: Path  # folder of the gate's gradients
    threads: int
    steps: int  # at most
    device: str = "cpu"
    vllm: bool = False  # whether TRL samples with vLLM, in its own process


def cases(names: list[str], scale: Scale) -> list[Case]:
    """The cases with these names, in the table's order."""
    selected = [case for case in CASES if case.name in names]
    return [shrink(case) for case in selected] if scale == "small" else selected


def shrink(case: Case) -> Case:
    return replace(
        case,
        side=SHRINK.get(case.side, 0),
        length=8,
        vocabulary=SMALL_VOCABULARY if case.vocabulary else None,
    )


def build_config(case: Case, family: Family, scale: Scale) -> BuildConfig:
    """The policy's sizes; without images, a text model with the same backbone."""
    return replace(FULL if scale == "full" else SMALL, family=family if case.side else "qwen2")
