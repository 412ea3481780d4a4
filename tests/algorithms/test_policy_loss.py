"""Advantages of `policy_loss`, from rows of another trainer, equal those from groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vlrft.advantages import ESTIMATORS
from vlrft.advantages.rows import estimate_rows
from vlrft.algorithms import ALGORITHMS, Algorithm, override, policy_loss
from vlrft.objectives.policy_gradient import PolicyGradient
from vlrft.schema import Group, Piece, Prompt, Rollout, TrainingRow
from vlrft.testing.small_policies import sample
from vlrft.trainer.batch import make_batch

PLAIN = Algorithm(name="plain", doc="", paper="", objective=PolicyGradient(), reduction="token")
LENGTH = 6
BY_TURN = {
    "gigpo_turns",
    "standardised_turns",
}  # a row is one turn here, but the groups have a row of two
GREEDY = [0.5, 0.25]
WEIGHTS = {"choice": 1.0, "format": 0.5}


def groups() -> list[Group]:
    """Ragged groups of rollouts with one or two turns; some have environment text in between."""
    turns: list[list[list[list[int]]]] = [
        [[[2], [3, 2, 1]], [[4]], [[1, 1, 1], [2]]],
        [[[5]], [[2], [2]]],
    ]
    scores: list[list[tuple[float, float | None]]] = [
        [(1.0, 1.0), (0.0, None), (0.5, 0.0)],
        [(0.25, 1.0), (1.0, 0.0)],
    ]
    out: list[Group] = []
    for k, (rollouts, group_scores) in enumerate(zip(turns, scores, strict=True)):
        one = sample(f"s{k}", kind="abc"[k])
        out.append(
            Group(
                sample=one,
                rollouts=tuple(
                    Rollout(
                        sample=one,
                        rows=tuple(_row(lengths) for lengths in row_lengths),
                        reward=choice + 0.5 * (tidy or 0.0),
                        scores={"choice": choice, "format": tidy},
                    )
                    for row_lengths, (choice, tidy) in zip(rollouts, group_scores, strict=True)
                ),
            )
        )
    return out


def _row(lengths: list[int]) -> TrainingRow:
    pieces = [Piece(ids=(1,) * n, text="", sampled=k % 2 == 0) for k, n in enumerate(lengths)]
    return TrainingRow(prompt=Prompt(ids=(7,)), pieces=tuple(pieces))


def as_rows() -> dict[str, Any]:
    """The same step as another trainer has it: every value by row."""
    rows = [
        (s, g, i, r)
        for i, (g, r) in enumerate((g, r) for g, group in enumerate(groups()) for r in group.rollouts)
        for s in r.rows
    ]  # fmt: skip
    mask = torch.zeros(len(rows), 8, dtype=torch.bool)
    for b, (s, *_) in enumerate(rows):
        at = 0
        for piece in s.pieces:
            mask[b, at : at + len(piece.ids)] = piece.sampled
            at += len(piece.ids)
    return {
        "logprobs": torch.full(mask.shape, -1.0, dtype=torch.float64),
        "rewards": [r.reward for *_, r in rows],
        "group": [10 - g for _, g, *_ in rows],  # any labels
        "rollout": [100 - i for _, _, i, _ in rows],
        "mask": mask,
        "extras": {
            "length": LENGTH,
            "greedy_rewards": [GREEDY[g] for _, g, *_ in rows],
            "weights": WEIGHTS,
            "scores": {
                name: [np.nan if (v := r.scores[name]) is None else v for *_, r in rows]
                for name in WEIGHTS
            },
        },
    }


@pytest.mark.parametrize("name", sorted(set(ESTIMATORS) - BY_TURN))
def test_rows_and_groups_give_the_same_advantages(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = override(PLAIN, {"advantage": name})
    monkeypatch.setitem(ALGORITHMS, "plain", PLAIN)
    advantages = estimate_rows(
        groups(), algorithm.estimator, weights=WEIGHTS, max_tokens=LENGTH, greedy=GREEDY
    )
    whole = override(algorithm, {"regularize": {"kl": 0.1}})  # no row is left out
    batch = make_batch(groups(), advantages, whole, temperature=1.0, max_tokens=LENGTH).loss
    result = policy_loss("plain", **as_rows(), advantage=name).advantages
    width = batch.mask.shape[1]
    assert torch.equal(result[:, :width].to(torch.float64), batch.advantages)
    assert torch.equal(as_rows()["mask"][:, :width], batch.mask)
    assert not result[~as_rows()["mask"]].any()


def test_a_schedule_has_the_value_of_the_progress_that_is_given() -> None:
    def loss(progress: float | None, **overrides: Any) -> float:
        rows = as_rows()
        if progress is not None:
            rows["extras"]["progress"] = progress
        ones = torch.ones_like(rows["logprobs"])
        return float(policy_loss("gpg", **rows, ref_logprobs=-2 * ones, **overrides).loss)

    falling = {"regularize": {"kl": {"from": 0.1, "to": 0.05}}}
    constant = [loss(None, regularize={"kl": kl}) for kl in (0.1, 0.075, 0.05)]
    assert len(set(constant)) == 3
    assert [loss(done, **falling) for done in (0.0, 0.5, 1.0)] == constant
    assert loss(None, **falling) == constant[0]
    steps = [{"step": "combine", "weights": {"choice": {"from": 1.0, "to": 0.5}}}, "centre"]
    halved = policy_loss("gpg", **_at(0.5), advantage=steps).advantages
    whole = policy_loss("gpg", **_at(0.0), advantage=steps).advantages
    torch.testing.assert_close(halved, 0.75 * whole)


def _at(progress: float) -> dict[str, Any]:
    rows = as_rows()
    return {**rows, "extras": {**rows["extras"], "progress": progress}}


def test_a_rollout_counts_once_however_many_rows_it_has() -> None:
    result = policy_loss("gpg", **as_rows()).advantages
    rewards = [g.rewards for g in groups()]
    first = rewards[0][0] - sum(rewards[0]) / 3
    assert result[0, :2].tolist() == pytest.approx([first] * 2)
    assert result[1, :4].tolist() == pytest.approx([first, first, first, 0.0])


def test_a_value_that_an_estimator_lacks_is_named() -> None:
    rows = as_rows()
    rows["extras"] = {}
    with pytest.raises(ValueError, match=r"gpg needs extras=\{'greedy_rewards'"):
        policy_loss("gpg", **rows, advantage="remax")
    with pytest.raises(ValueError, match="advantage dapo: overlong: needs the configured longest"):
        policy_loss("gpg", **rows, advantage="dapo")
    ones = torch.ones(len(rows["rewards"]))
    assert float(policy_loss("gpg", **rows, advantage="remax", advantages=ones).loss) != 0


def test_further_group_keys_and_truncated_answers() -> None:
    rows = {
        "logprobs": torch.full((4, 1), -1.0),
        "rewards": [1.0, 0.0, 0.0, 0.0],
        "group": [0, 0, 1, 1],
        "mask": torch.ones(4, 1, dtype=torch.bool),
        "extras": {"keys": {"variant": torch.tensor([5, 6, 5, 6])}},
        "truncated": torch.tensor([False, False, True, False]),
    }
    steps = [{"step": "centre", "key": "variant"}, {"step": "mute_truncated"}]
    result = policy_loss("gpg", **rows, advantage=steps).advantages  # type: ignore[arg-type]
    assert result[:, 0].tolist() == [0.5, 0.0, 0.0, 0.0]


def test_turns_are_compared_within_their_group() -> None:
    """In order of rows: two rollouts of two turns, then another group that answers the same observation."""
    rows = {
        "logprobs": torch.full((5, 1), -1.0, dtype=torch.float64),
        "rewards": [1.0, 1.0, 1.0, 1.0, 0.0],
        "group": [0, 0, 0, 0, 1],
        "rollout": [0, 0, 1, 1, 2],
        "mask": torch.ones(5, 1, dtype=torch.bool),
        "extras": {"step_rewards": [0.0, 1.0, 1.0, 0.0, 0.0], "anchors": [7, 8, 7, 9, 7]},
    }
    steps = ["centre", {"step": "add_step", "scale": False, "discount": 0.5}]
    result = policy_loss("gpg", **rows, advantage=steps).advantages  # type: ignore[arg-type]
    assert result[:, 0].tolist() == [-0.25, 0.0, 0.25, 0.0, 0.0]
