"""Rows whose own part is a weight, a bound or a schedule: advantages and losses by hand, and each row with a mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

import pytest

from tests.systems.mutant import Mutant
from tests.systems.rollouts import LETTERS, step_groups
from tests.systems.row import Row
from vlrft.advantages.rows import RowAdvantages
from vlrft.schema import Rollout

GROUPS = step_groups(LETTERS, 0)
EPISODES = step_groups(LETTERS, 0, turns=2)
K3 = math.exp(-0.5) + 0.5 - 1  # k3 of a token whose log-prob is 0.5 above the reference policy's


def standardised(values: Sequence[float]) -> list[float]:
    spread = stdev(values)
    return [(v - fmean(values)) / (spread + 1e-6) if spread > 1e-6 else 0.0 for v in values]


def assert_standardised(row: Row, weights: Mapping[str, float], done: float = 0.0) -> None:
    """The advantages of the shared rollouts are those of this sum of their scores."""
    for shared, rows in zip(GROUPS, row.advantages(GROUPS, done), strict=True):
        sums = [sum(w * (r.scores[n] or 0.0) for n, w in weights.items()) for r in shared.rollouts]
        assert_every_token(rows, standardised(sums))


def assert_every_token(rows: RowAdvantages, expected: Sequence[float]) -> None:
    """All tokens of all rows of a rollout have its advantage."""
    for of_rollout, value in zip(rows, expected, strict=True):
        tokens = [float(token) for of_row in of_rollout for token in of_row]
        assert tokens == pytest.approx([value] * len(tokens), abs=1e-9)


def assert_equal_weights(row: Row) -> None:
    """Both rewards weigh one half, whatever the task's weights."""
    assert_standardised(row, {"count": 0.5, "format": 0.5})


def assert_bleu_alone(row: Row) -> None:
    """Advantages of BLEU; the F1 beside it is logged alone."""
    assert_standardised(row, {"text_overlap/bleu": 1.0})


def assert_from_form_to_answer(row: Row) -> None:
    """Weights on a cosine: of the form from 1 to 0.2, of the answer from 0.2 to 1, both 0.6 half-way."""
    for done, form, answer in (
        (0.0, 1.0, 0.2),
        (0.5, 0.6, 0.6),
        (0.25, 0.2 + 0.8 * CURVE, 1 - 0.8 * CURVE),
    ):
        assert_standardised(row, {"format": form, "count": answer}, done)


CURVE = (1 + math.cos(math.pi / 4)) / 2  # what is left of a cosine after a quarter


def assert_right_and_well_formed(row: Row) -> None:
    """1 for an answer that is right and has the form, else 0."""
    assert_gated(row, lambda count, form: count if form >= 1 else 0.0)


def assert_thought_of_right_answers(row: Row) -> None:
    """The reward of the thought counts only where the answer is right."""
    assert_gated(row, lambda count, form: count + (0.1 * form if count >= 1 else 0.0))


def assert_gated(row: Row, reward: Callable[[float, float], float]) -> None:
    for shared, rows in zip(GROUPS, row.advantages(GROUPS), strict=True):
        values = [
            reward(r.scores["count"] or 0.0, r.scores["format"] or 0.0) for r in shared.rollouts
        ]
        assert_every_token(rows, standardised(values))


def assert_outcome_of_episodes(row: Row) -> None:
    """Every turn of an episode has the advantage of its outcome."""
    for shared, rows in zip(EPISODES, row.advantages(EPISODES), strict=True):
        assert_every_token(rows, standardised(shared.rewards))


def assert_credit_by_turn(row: Row) -> None:
    """To the episode's advantage comes that of the return from the turn, discounted by 0.95, among those of the same observation."""
    paid = [replace(g, rollouts=tuple(map(_paid_by_turn, g.rollouts))) for g in EPISODES]
    for shared, rows in zip(paid, row.advantages(paid), strict=True):
        by_episode = standardised(shared.rewards)
        first, last = zip(*(_turn_rewards(r) for r in shared.rollouts), strict=True)
        returns = [a + 0.95 * b for a, b in zip(first, last, strict=True)]
        by_turn = [standardised(returns), standardised(last)]
        for k, of_rollout in enumerate(rows):
            for turn, of_row in enumerate(of_rollout):
                expected = by_episode[k] + by_turn[turn][k]
                assert [float(t) for t in of_row] == pytest.approx(
                    [expected] * len(of_row), abs=1e-9
                )


def _turn_rewards(rollout: Rollout) -> tuple[float, float]:
    return rollout.scores["text_overlap/bleu"] or 0.0, rollout.scores["count"] or 0.0


def _paid_by_turn(rollout: Rollout) -> Rollout:
    """An environment pays one score for the first turn, and another for the second."""
    rows = []
    for row, reward in zip(rollout.rows, _turn_rewards(rollout), strict=True):
        (piece,) = row.pieces
        assert piece.turn is not None
        rows.append(replace(row, pieces=(replace(piece, turn=replace(piece.turn, reward=reward)),)))
    return replace(rollout, rows=tuple(rows))


def assert_flow(row: Row) -> None:
    """The outcome for every turn; the ratio may rise to 1.3; a KL penalty of 0.001."""
    assert_outcome_of_episodes(row)
    assert row.token_loss(1.25, 1.0) == pytest.approx(-1.25)
    assert row.token_loss(1.35, 1.0) == pytest.approx(-1.3)
    assert row.token_loss(1.0, 0.0, reference=0.5) == pytest.approx(0.001 * K3)


def assert_prolonged(row: Row) -> None:
    """Ratios between 0.8 and 1.4 and no penalty on length; a reset of the reference makes the optimiser forget."""
    assert row.token_loss(1.35, 1.0) == pytest.approx(-1.35)
    assert row.token_loss(1.5, 1.0) == pytest.approx(-1.4)
    assert row.token_loss(0.7, -1.0) == pytest.approx(0.8)
    assert row.algorithm.reference.reset_optimizer
    assert row.stage.rollout.temperature == 1.2
    ended = [replace(g, rollouts=tuple(map(_long, g.rollouts))) for g in GROUPS]
    for shared, rows in zip(ended, row.advantages(ended), strict=True):
        assert_every_token(rows, standardised(shared.rewards))


def _long(rollout: Rollout) -> Rollout:
    """The right ones have as many tokens as a completion may have."""
    (row,) = rollout.rows
    (piece,) = row.pieces
    length = 16 if rollout.reward >= 1 else 1
    longer = replace(piece, ids=(7,) * length, logprobs=(-1.0,) * length, signals={})
    return replace(rollout, rows=(replace(row, pieces=(longer,)),))


def assert_dual_clip(row: Row) -> None:
    """A wrong token costs at most three times its advantage, however likely it has become; a KL penalty of 0.01."""
    assert row.token_loss(5.0, -1.0) == pytest.approx(3.0)
    assert row.token_loss(1.0, 0.0, reference=0.5) == pytest.approx(0.01 * K3)


def assert_growing_penalty(row: Row) -> None:
    """The KL penalty is 0 in the beginning, half of 0.04 half-way, on a cosine."""
    for done, weight in ((0.0, 0.0), (0.25, 0.04 * (1 - CURVE)), (0.5, 0.02)):
        loss = row.token_loss(1.0, 0.0, reference=0.5, done=done)
        assert loss == pytest.approx(weight * K3, abs=1e-15)


PLAIN = {"config": {"algorithm": "grpo"}}
ROWS: Mapping[int, Mutant] = {
    20: Mutant(assert_equal_weights, "the task's weights, 1 and 0.1", PLAIN),
    24: Mutant(
        assert_bleu_alone,
        "BLEU and F1 are both paid",
        {
            "config": {
                "task": {"options": {"answer": "text"}, "rewards": {"text_overlap": 1.0}},
                "algorithm": "grpo",
            }
        },
    ),
    34: Mutant(
        assert_right_and_well_formed,
        "the form is paid where the answer is right, the answer always",
        {
            "config": {
                "algorithm": {
                    "name": "grpo",
                    "advantage": [
                        {"step": "gate", "of": "format", "by": "count"},
                        "centre",
                        "scale",
                    ],
                }
            }
        },
    ),
    41: Mutant(
        assert_prolonged,
        "DAPO as it is: its upper bound of 0.28 and its penalty on length",
        {
            "config": {
                "rollout": {"temperature": 1.2},
                "algorithm": {
                    "name": "dapo",
                    "regularize": {"kl": 0.0001},
                    "reference": {"update": "reset", "every": 200, "reset_optimizer": True},
                },
            }
        },
    ),
    52: Mutant(
        assert_from_form_to_answer,
        "a straight line from one weight to the other",
        {
            "config": {
                "algorithm": {
                    "name": "grpo",
                    "advantage": [
                        {
                            "step": "combine",
                            "weights": {
                                "format": {"from": 1.0, "to": 0.2},
                                "count": {"from": 0.2, "to": 1.0},
                            },
                        },
                        "centre",
                        "scale",
                    ],
                }
            }
        },
    ),
    56: Mutant(assert_flow, "GRPO's bound of 0.2 and its KL penalty of 0.04", PLAIN),
    76: Mutant(
        assert_outcome_of_episodes,
        "credit by turn, GiGPO's",
        {"config": {"algorithm": "gigpo"}},
    ),
    107: Mutant(
        assert_credit_by_turn,
        "returns without a discount",
        {
            "config": {
                "algorithm": {
                    "name": "gigpo",
                    "advantage": ["centre", "scale", {"step": "add_step", "discount": 1.0}],
                }
            }
        },
    ),
    129: Mutant(
        assert_thought_of_right_answers,
        "the reward of the thought counts for wrong answers, too",
        PLAIN,
    ),
    141: Mutant(assert_growing_penalty, "GRPO's constant penalty of 0.04", PLAIN),
    177: Mutant(assert_dual_clip, "GRPO without the dual clip, with its KL penalty of 0.04", PLAIN),
}
"""Row -> its check, and the row with a mistake."""
