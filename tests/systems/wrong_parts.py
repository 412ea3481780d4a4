"""Rewards, prompt strategies and a way to pack that are wrong in one place each, as a reader of the paper may write them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from itertools import product

from vlrft.rewards.choices import choices as choices_of
from vlrft.rewards.length import shrunk
from vlrft.rewards.tool_calls import tool_calls as calls_of

from vlrft.config import strict
from vlrft.grading import read_answer
from vlrft.schema import Sample
from vlrft.selection.prompt_state import PromptRecord
from vlrft.selection.prompt_strategies import Greso, HistoryResampling
from vlrft.selection.weighted_prompts import Cures

HERE = "tests.systems.wrong_parts:"


def tool_calls(completion: str, sample: Sample) -> float:
    """Right or wrong as a whole, without credit for parts of a call."""
    return 3.0 if calls_of(completion, sample) == 3.0 else -3.0


def jaccard(completion: str, sample: Sample) -> float:
    """The share of the gold labels that is named: labels too many cost nothing."""
    gold = set(str(sample.answer).split("; "))
    return len(gold & set((read_answer(completion) or "").split("; "))) / len(gold)


def choices(completion: str, sample: Sample) -> float:
    """All right choices or nothing."""
    return float(choices_of(completion, sample) == 1.0)


def majority(completions: Sequence[str], sample: Sample) -> list[float]:
    """TTRL's vote: 1 for the most frequent answer."""
    answers = [read_answer(c) for c in completions]
    most, _ = Counter(answers).most_common(1)[0]
    return [float(a == most) for a in answers]


def trajectory(completion: str, sample: Sample) -> float:
    """The plain Fréchet distance, without directions and lengths of steps."""
    path, gold = json.loads(read_answer(completion) or "[]"), sample.answer
    assert isinstance(gold, list)
    if not path:
        return 0.0
    reached: dict[tuple[int, int], float] = {}
    for i, j in product(range(len(gold)), range(len(path))):
        before = [reached[k] for k in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if k in reached]
        reached[i, j] = max(math.dist(gold[i], path[j]), min(before, default=0.0))
    return 1 - min(1.0, reached[len(gold) - 1, len(path) - 1] / math.sqrt(2))


def curriculum(completion: str, sample: Sample, progress: float) -> float:
    """A limit in place of a triangle."""
    return float(len(completion) <= shrunk(1024, progress))


@strict
class WithoutFailed(HistoryResampling):
    """Prompts that were all wrong are skipped, too."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        return record.stale > 0


@strict
class OneChance(Greso):
    """1 − p in place of 1 − p^z: however often a prompt was of no use."""

    def skip(self, record: PromptRecord, chance: float) -> bool:
        p = self.explore_solved if self._is_solved(record) else self.explore_failed
        return record.stale > 0 and chance >= p


@strict
class WithoutSmoothing(Cures):
    """p = s / n, without the 1 and the 2 that a prompt begins with."""

    def weight(self, record: PromptRecord) -> float:
        p = record.total / record.seen
        return math.exp(math.sqrt(p * (1 - p)) * self.sharpness / (record.total + 1))
