"""The environments of the packs and the single turn pass the suite that plugin authors inherit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.tasks.alfworld.generated import generate_games
from vlrft.config import TaskConfig
from vlrft.envs import SingleTurn
from vlrft.rollout.gold import gold_turns
from vlrft.rollout.task import LoadedTask, load_task
from vlrft.schema import Env, Message, Observation, Step
from vlrft.testing.environment import EnvironmentConformance
from vlrft.testing.small_policies import sample


class TestSingleTurn(EnvironmentConformance):
    def make_env(self) -> Env:
        return SingleTurn(sample("Which digit is this?"))


class OfAPack(EnvironmentConformance):
    """The first sample of a pack, played with its gold actions."""

    loaded: LoadedTask

    def make_env(self) -> Env:
        assert self.loaded.task.env is not None
        return self.loaded.task.env(self.loaded.samples[0])

    def actions(self) -> Sequence[str]:
        return gold_turns(self.loaded.task, self.loaded.samples[0])


class TestGridWorldInPictures(OfAPack):
    loaded = load_task(TaskConfig(name="gridworld"), "train")
    scores = loaded.task.env_scores


class TestGridWorldWithAGrowingContext(OfAPack):
    loaded = load_task(TaskConfig(name="gridworld", options={"context": "growing"}), "train")


class TestAlfworld(OfAPack):
    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def game(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        pytest.importorskip("textworld", reason="needs vlrft[alfworld]")
        folder = tmp_path_factory.mktemp("alfworld")
        generate_games(folder, "train", 1)
        cls.loaded = load_task(TaskConfig(name="alfworld", options={"data": str(folder)}), "train")


class Forgetful:
    """Breaks what the suite asks for: it shares its state, and raises at what it cannot read."""

    turns = 0

    def start(self) -> Observation:
        return Observation(messages=sample(f"turn {Forgetful.turns}").messages)

    def step(self, text: str) -> Step:
        Forgetful.turns += 1
        return Step(reward=float(text))

    def close(self) -> None:
        pass


class Broken(EnvironmentConformance):
    scores = ("won",)

    def make_env(self) -> Env:
        return Forgetful()

    def actions(self) -> Sequence[str]:
        return ("1",)


@pytest.mark.parametrize(
    "check",
    [
        Broken.test_every_step_has_finite_numbers_and_a_renderable_observation,
        Broken.test_an_answer_that_cannot_be_read_is_a_step_and_no_error,
        Broken.test_equal_actions_give_equal_episodes,
        Broken.test_environments_of_one_sample_do_not_share_state,
    ],
)
def test_the_suite_fails_for_a_broken_environment(check: object) -> None:
    assert callable(check)
    with pytest.raises((AssertionError, ValueError)):
        check(Broken())


def test_a_suite_says_what_is_left_to_define(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"EnvironmentConformance: define make_env\(self\) -> Env"):
        EnvironmentConformance().make_env()


def test_a_failed_check_shows_the_values_that_it_compared() -> None:
    """As pytest shows them in a test file: the author of the environment sees in what two episodes differ."""
    rewards = count(5)

    class Random:
        def start(self) -> Observation:
            return Observation(messages=(Message(role="user", content=("go",)),))

        def step(self, text: str) -> Step:
            return Step(observation=None, reward=next(rewards))

        def close(self) -> None:
            """Nothing to close."""

    class Suite(EnvironmentConformance):
        def make_env(self) -> Env:
            return Random()

    with pytest.raises(AssertionError, match=r"assert \[\(5, .* == \[\(6, "):
        Suite().test_equal_actions_give_equal_episodes()
