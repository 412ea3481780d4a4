"""The cases of vs_trl.py: which work is timed, at which shapes, and what ratio is wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vlrft.config import BuildConfig

Family = Literal["qwen2_vl", "qwen2_5_vl"]
Scale = Literal["small", "full"]
Metric = Literal["update", "rollout", "step", "memory"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One line of the table."""

    name: str
    what: str
    measure: Metric
    side: int  # of the image in pixels; 0: text only
    words: int  # of the question
    length: int  # C: tokens of every completion
    group: int  # G
    prompts: int  # a step
    goal: float  # TRL / vlrft at least this; for memory vlrft / TRL at most this
    dead: int = 0  # prompts of a step whose completions all earn the same
    vocabulary: int | None = None  # rows of the embedding; None: those that the tokenizer needs
    trl_rows: int = 1  # completions a micro-batch of TRL's; see vs_trl_theirs.py
    our_groups: int | None = None  # groups a micro-batch of ours; None: all that its default holds
    trl_head: Literal["completions", "released"] = "completions"  # see vs_trl_theirs.py
    times_of: str | None = None  # the goal is so many times this case's ratio

    @property
    def rows(self) -> int:
        return self.prompts * self.group


QWEN_VOCABULARY = 151_936
WHEN_ASKED = ("P6r",)  # cases that run only when they are named
P1 = Case(
    name="P1", what="update, a 448 × 448 image", measure="update",
    side=448, words=20, length=64, group=8, prompts=2, goal=4.0,
)  # fmt: skip
P2 = replace(P1, name="P2", what="update, an 840 × 840 image", side=840, prompts=1, goal=5.0)
P6 = replace(
    P1, name="P6", what="peak memory of the update, vocabulary 151,936, a group at once", measure="memory",
    prompts=1, vocabulary=QWEN_VOCABULARY, trl_rows=8, our_groups=1, goal=0.5,
)  # fmt: skip
CASES = (
    P1,
    P2,
    replace(P1, name="P3", what="P1, half of the groups without signal", dead=1, goal=1.7, times_of="P1"),
    replace(P2, name="P4", what="rollout, an 840 × 840 image", measure="rollout", goal=1.6),
    replace(P1, name="P5", what="whole step: processing, rollout, reward, update", measure="step", goal=3.0),
    P6,
    replace(P6, name="P6r", what="P6, TRL's head as released", trl_head="released"),
    replace(P6, name="P6s", what="P6, TRL by single rows", trl_rows=1),
    Case(
        name="P7", what="update, text only, short prompts", measure="update",
        side=0, words=8, length=64, group=2, prompts=8, goal=1.0, trl_rows=8,
    ),
)  # fmt: skip

# As in Qwen2-VL-2B an image token costs the tower twice what it costs the trunk, heads have 128 and 80 dimensions,
# and the trunk's MLP is 5.8 times as wide.
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
    """A case as the two processes get it."""

    case: Case
    folder: Path  # the saved policy
    scratch: Path  # of the gate's gradients
    threads: int
    steps: int  # at most


def cases(names: list[str], scale: Scale) -> list[Case]:
    """The cases of those names, in the table's order."""
    chosen = [case for case in CASES if case.name in names]
    return [shrunk(case) for case in chosen] if scale == "small" else chosen


def shrunk(case: Case) -> Case:
    return replace(
        case,
        side=SHRINK.get(case.side, 0),
        length=8,
        vocabulary=SMALL_VOCABULARY if case.vocabulary else None,
    )


def build_config(case: Case, family: Family, scale: Scale) -> BuildConfig:
    """The policy's sizes; without images a text model of the same trunk."""
    return replace(FULL if scale == "full" else SMALL, family=family if case.side else "qwen2")
