"""Conformance of an environment (`vlrft.schema.Env`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlrft.schema import IMAGE, Env, Observation, Step

MAX_TURNS = 200
UNREADABLE = ("", " ", "\n", "<answer></answer>", "\\boxed{", "🂡" * 50, "a" * 10_000)


class EnvironmentConformance:
    """Inherit it, name the subclass `Test…`, and define `make_env`; the other members have defaults."""

    deterministic: bool = True
    """Whether two environments of one sample start with equal observations and answer equal actions equally."""
    scores: tuple[str, ...] = ()
    """Names that every step's `scores` must contain (a task's `env_scores`)."""

    def make_env(self) -> Env:
        """A new environment of the same sample at each call."""
        raise TypeError(f"{type(self).__name__}: define make_env(self) -> Env")

    def actions(self) -> Sequence[str]:
        """Answers of a policy, turn by turn; the last one is repeated until the episode ends or `MAX_TURNS`."""
        return ("nothing in particular",)

    def episode(self, env: Env) -> tuple[list[Observation], list[Step]]:
        """The episode that `actions` make, closed at its end."""
        observations, steps = [env.start()], list[Step]()
        said = self.actions()
        try:
            for turn in range(MAX_TURNS):
                steps.append(env.step(said[min(turn, len(said) - 1)]))
                if steps[-1].observation is None:
                    break
                observations.append(steps[-1].observation)
        finally:
            env.close()
        return observations, steps

    def test_start_gives_an_observation_that_can_be_rendered(self) -> None:
        env = self.make_env()
        try:
            assert_renderable(env.start(), first=True)
        finally:
            env.close()

    def test_every_step_has_finite_numbers_and_a_renderable_observation(self) -> None:
        observations, steps = self.episode(self.make_env())
        for observation in observations[1:]:
            assert_renderable(observation, first=False)
        for step in steps:
            assert isinstance(step, Step), f"step() returned a {type(step).__name__}"
            assert math.isfinite(step.reward), f"the reward is {step.reward}"
            for name, score in step.scores.items():
                assert isinstance(name, str)
                assert math.isfinite(score), f"the score {name} is {score}"
            missing = set(self.scores) - set(step.scores)
            assert not missing, f"a step lacks the scores {sorted(missing)}"

    def test_an_answer_that_cannot_be_read_is_a_step_and_no_error(self) -> None:
        for text in UNREADABLE:
            env = self.make_env()
            try:
                env.start()
                assert isinstance(env.step(text), Step), f"no Step after {text[:20]!r}"
            finally:
                env.close()

    def test_it_can_be_closed_at_any_moment_and_others_still_start(self) -> None:
        self.make_env().close()
        started, other = self.make_env(), self.make_env()
        started.start()
        started.close()
        try:
            assert_renderable(other.start(), first=True)
        finally:
            other.close()

    def test_equal_actions_give_equal_episodes(self) -> None:
        if self.deterministic:
            one, other = (self.episode(self.make_env()) for _ in range(2))
            assert [view(o) for o in one[0]] == [view(o) for o in other[0]]
            assert [(s.reward, s.scores, s.valid) for s in one[1]] == [
                (s.reward, s.scores, s.valid) for s in other[1]
            ]

    def test_environments_of_one_sample_do_not_share_state(self) -> None:
        if not self.deterministic:
            return
        expected = view(self.episode(self.make_env())[0][0])
        first, second = self.make_env(), self.make_env()
        try:
            first.start()
            first.step(self.actions()[0])
            assert view(second.start()) == expected
        finally:
            first.close()
            second.close()


def assert_renderable(observation: object, *, first: bool) -> None:
    """Fails with a sentence for anything that a chat template cannot render."""
    assert isinstance(observation, Observation), f"got a {type(observation).__name__}"
    assert observation.messages, "an observation without messages"
    assert not (first and observation.follows), "the first observation cannot follow another"
    slots = sum(part is IMAGE for message in observation.messages for part in message.content)
    assert slots == len(observation.images), (
        f"{slots} IMAGE slots for {len(observation.images)} images"
    )
    hash(observation.anchor)


def view(observation: Observation) -> tuple[object, ...]:
    """All that a policy reads of it."""
    pixels = tuple((i.size, i.mode, i.tobytes()) for i in observation.images)
    return observation.messages, pixels, observation.follows
