"""Every reward of a pack passes the suite that plugin authors inherit, on samples of its pack."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from tests.conformance.failures import check_names, failure_of
from vlrft.config import TaskConfig
from vlrft.plugins.find import find_reward
from vlrft.rollout.gold import gold_text
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import Sample
from vlrft.testing.reward import RewardConformance

CHECKS = check_names(RewardConformance)
CASES = {  # reward -> (sample's answer, completion that is right, completion that is wrong)
    "choice": ("B", "<answer>B</answer>", "<answer>C</answer>"),
    "count": ("3", "<answer>3</answer>", "<answer>4</answer>"),
    "classname": ("tabby cat", "<answer>tabby cat</answer>", "<answer>dog</answer>"),
    "math_answer": ("1/2", "<answer>0.5</answer>", "<answer>2</answer>"),
}


class OfOurs(RewardConformance):
    def __init__(self, name: str) -> None:
        self.reward = find_reward(name)
        self.answer, self.right, self.wrong_text = CASES[name]

    def samples(self) -> Sequence[Sample]:
        return [Sample(id="a", messages=(), answer=self.answer, tags={"kind": "k"})]

    def gold(self, sample: Sample) -> str:
        return self.right

    def wrong(self, sample: Sample) -> str:
        return self.wrong_text


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_reward_of_ours(name: str, check: str) -> None:
    assert failure_of(OfOurs(name), check) is None


@cache
def digits() -> LoadedTask:
    options = {"subtasks": ["classify", "count", "ground"]}
    return load_task(TaskConfig(name="digits", options=options), "test")


class TestDigits(RewardConformance):
    """All rewards of a pack together: where one does not apply to a sample another does."""

    @staticmethod
    def reward(completion: str, sample: Sample) -> Any:
        return {r.name: r.function(completion, sample) for r in digits().rewards}

    def samples(self) -> Sequence[Sample]:
        return list(digits().head(9))

    def gold(self, sample: Sample) -> str:
        return gold_text(digits().task, sample)


class Broken(RewardConformance):
    """Breaks what the suite asks for: it raises for what it cannot read, and writes into its sample."""

    @staticmethod
    def reward(completion: str, sample: Sample) -> float:
        sample.info["calls"] = sample.info.get("calls", 0) + 1  # type: ignore[index]
        return float(completion) / float(sample.info["calls"])

    def samples(self) -> Sequence[Sample]:
        return [Sample(id="a", messages=(), info={})]

    def gold(self, sample: Sample) -> str:
        return "1"

    def wrong(self, sample: Sample) -> str:
        return "0"


@pytest.mark.parametrize(
    "check",
    [
        "test_an_unreadable_answer_is_scored_and_raises_nothing",
        "test_a_score_does_not_depend_on_the_call_before",
        "test_samples_are_left_as_they_were",
    ],
)
def test_the_suite_fails_for_a_careless_reward(check: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        getattr(Broken(), check)()


def test_a_plain_function_in_the_class_is_the_reward() -> None:
    class Plain(OfOurs):
        reward = find_reward("count")

        def __init__(self) -> None:
            self.answer, self.right, self.wrong_text = CASES["count"]

    suite = Plain()
    assert suite.scores(suite.samples()[0], [suite.right, suite.wrong_text]) == [
        {"reward": 1.0},
        {"reward": 0.0},
    ]
    suite.test_a_gold_answer_earns_the_best_score()
