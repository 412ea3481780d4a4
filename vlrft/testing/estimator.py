"""Conformance of an advantage estimator (`vlrft.advantages.Estimator`)."""

from __future__ import annotations

import numpy as np

from vlrft.advantages import Estimator, EstimatorInput, estimate_advantages, estimator_input
from vlrft.schema import Group, Piece, Prompt, Rollout, Sample, TrainingRow, Turn

EXACT = 1e-12


class EstimatorConformance:
    """Inherit it, name the subclass `Test…`, and define `estimator`."""

    compares: bool = True
    """Whether rewards are compared within groups, so that a group of equal rewards gets no advantage."""
    reads_rewards: bool = True
    turns: int = 2
    """Turns of every rollout."""

    def estimator(self) -> Estimator:
        raise TypeError(f"{type(self).__name__}: define estimator(self) -> Estimator")

    def groups(self, seed: int = 0, *, equal: bool = False) -> list[Group]:
        """Three samples by four rollouts, whose rewards within a group are distinct; `equal`: all rewards are 1."""
        draw = np.random.default_rng(seed)
        distinct = draw.permuted(np.tile([0.0, 0.25, 0.5, 1.0], (3, 1)), axis=1)
        rewards = np.ones((3, 4)) if equal else distinct
        return [
            _group(f"sample {k}", row.tolist(), self.turns, draw) for k, row in enumerate(rewards)
        ]

    def step(self, groups: list[Group]) -> EstimatorInput:
        """The estimator's input. A greedy rollout, where one is needed, has the reward of its group's mean."""
        greedy = [float(np.mean(group.rewards)) for group in groups]
        estimator = self.estimator()
        return estimator_input(
            groups, {"reward": 1.0}, 16, greedy if estimator.greedy else None, estimator.signals
        )

    def by_rollout(self, groups: list[Group]) -> dict[tuple[str, int], list[list[float]]]:
        """(sample id, rollout) -> [turns][tokens]; a rollout is known by its `policy_step`."""
        step = self.step(groups)
        turns = estimate_advantages(step, self.estimator())
        rollouts = [r for group in groups for r in group.rollouts]
        table: dict[tuple[str, int], list[list[float]]] = {}
        for owner, turn in zip(step.rollouts, turns, strict=True):
            key = rollouts[owner].sample.id, rollouts[owner].policy_step
            table.setdefault(key, []).append(turn.tolist())
        return table

    def test_every_action_token_has_a_finite_advantage(self) -> None:
        step = self.step(self.groups())
        turns = estimate_advantages(step, self.estimator())
        assert [len(turn) for turn in turns] == step.turn_tokens.tolist()
        assert all(np.isfinite(turn).all() for turn in turns)

    def test_different_rewards_give_different_advantages(self) -> None:
        if self.reads_rewards:
            turns = estimate_advantages(self.step(self.groups()), self.estimator())
            assert len({round(float(value), 12) for turn in turns for value in turn}) > 1

    def test_equal_rewards_give_no_advantage(self) -> None:
        if self.compares:
            turns = estimate_advantages(self.step(self.groups(equal=True)), self.estimator())
            assert all((turn == 0).all() for turn in turns)

    def test_the_order_of_groups_and_rollouts_changes_nothing(self) -> None:
        groups = self.groups()
        moved = [
            Group(sample=group.sample, rollouts=group.rollouts[::-1]) for group in groups[::-1]
        ]
        expected, table = self.by_rollout(groups), self.by_rollout(moved)
        assert expected.keys() == table.keys()
        for key, turns in expected.items():
            for one, other in zip(turns, table[key], strict=True):
                np.testing.assert_allclose(one, other, rtol=EXACT, atol=EXACT)

    def test_its_input_is_left_as_it_was(self) -> None:
        step = self.step(self.groups())
        before = step.values.copy(), step.tokens.copy()
        self.estimator()(step)
        assert (step.values == before[0]).all()
        assert (step.tokens == before[1]).all()


def _group(name: str, rewards: list[float], turns: int, draw: np.random.Generator) -> Group:
    sample = Sample(id=name, messages=())
    return Group(
        sample=sample,
        rollouts=tuple(
            Rollout(
                sample=sample,
                reward=reward,
                scores={"reward": reward},
                policy_step=k,
                rows=tuple(
                    TrainingRow(
                        prompt=Prompt(ids=(turn,)),
                        pieces=(
                            _piece(
                                int(draw.integers(1, 5)),
                                Turn(anchor=(name, turn), reward=reward / turns),
                                np.random.default_rng([len(name), turn, k]),
                            ),
                        ),
                    )
                    for turn in range(turns)
                ),
            )
            for k, reward in enumerate(rewards)
        ),
    )


def _piece(tokens: int, turn: Turn, draw: np.random.Generator) -> Piece:
    """A sampled piece with numbers of each token."""

    def numbers() -> tuple[float, ...]:
        return tuple(draw.random(tokens).tolist())

    names = ("entropy", "certainty", "collision", "mean_logprob")
    return Piece(
        ids=tuple(range(tokens)),
        text="",
        turn=turn,
        logprobs=numbers(),
        signals={name: numbers() for name in names},
    )
