"""Conformance of a reward (`vlrft.schema.Reward`, or any other signature that docs list)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vlrft.schema import Piece, Prompt, Rollout, Sample, TrainingRow
from vlrft.scoring.rewards import score_groups
from vlrft.scoring.weighted import WeightedReward

UNREADABLE = ("", " ", "\n\n", "<answer>", "</answer><answer>", "\\boxed{", "{[(" * 500, "🂡")


class RewardConformance:
    """Inherit it, name the subclass `Test…`, and define `reward`, `samples` and `gold`."""

    reward: Callable[..., Any]
    """The function; `reward = my_reward` and `reward = staticmethod(my_reward)` mean the same."""
    best: float = 1.0
    """The score of a right answer."""
    deterministic: bool = True

    def samples(self) -> Sequence[Sample]:
        """A few samples that the reward applies to."""
        raise TypeError(f"{type(self).__name__}: define samples(self) -> Sequence[Sample]")

    def gold(self, sample: Sample) -> str:
        """A completion that earns `best`."""
        raise TypeError(f"{type(self).__name__}: define gold(self, sample) -> str")

    def wrong(self, sample: Sample) -> str:
        """A completion that earns less than `best`."""
        return ""

    @property
    def _function(self) -> Callable[..., Any]:
        """`reward` without `self` as its first argument."""
        attribute = inspect.getattr_static(self, "reward")
        if isinstance(attribute, staticmethod):
            return attribute.__func__
        function: Callable[..., Any] = attribute
        return function

    def scores(self, sample: Sample, texts: Sequence[str]) -> list[Mapping[str, float | None]]:
        """The named scores of completions of one sample, which are a group. Raises what training would raise."""
        reward = WeightedReward(name="reward", weight=1.0, function=self._function)
        group = [
            Rollout(
                sample=sample,
                rows=(
                    TrainingRow(
                        prompt=Prompt(ids=()), pieces=(Piece(ids=(), text=text, finish="stop"),)
                    ),
                ),
            )
            for text in texts
        ]
        return [rollout.scores for rollout in score_groups([group], [reward])[0]]

    def test_a_gold_answer_earns_the_best_score(self) -> None:
        for sample in self.samples():
            (scores,) = self.scores(sample, [self.gold(sample)])
            applicable = {value for value in scores.values() if value is not None}
            assert applicable == {self.best}, f"{sample.id}: {dict(scores)}"

    def test_a_wrong_answer_earns_less(self) -> None:
        for sample in self.samples():
            (scores,) = self.scores(sample, [self.wrong(sample)])
            assert any(v is not None and v < self.best for v in scores.values()), sample.id

    def test_an_unreadable_answer_is_scored_and_raises_nothing(self) -> None:
        for sample in self.samples():
            for scores in self.scores(sample, UNREADABLE):
                values = [value for value in scores.values() if value is not None]
                assert all(value <= self.best for value in values), f"{sample.id}: {dict(scores)}"

    def test_a_score_does_not_depend_on_the_call_before(self) -> None:
        if self.deterministic:
            for sample in self.samples():
                texts = [self.gold(sample), self.wrong(sample), *UNREADABLE]
                assert self.scores(sample, texts) == self.scores(sample, texts), sample.id

    def test_samples_are_left_as_they_were(self) -> None:
        for sample in self.samples():
            before = copy.deepcopy((sample.answer, dict(sample.tags), dict(sample.info)))
            self.scores(sample, [self.gold(sample), ""])
            assert (sample.answer, dict(sample.tags), dict(sample.info)) == before, sample.id
