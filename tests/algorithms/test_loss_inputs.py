"""What `policy_loss` refuses: arguments without effect, and rows that do not go together."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from vlrft.algorithms import policy_loss
from vlrft.schema.errors import NonFiniteError


def plain_rows(**changes: Any) -> dict[str, Any]:
    """Four rows of two groups; the last row has one token."""
    mask = torch.ones(4, 2, dtype=torch.bool)
    mask[3, 1] = False
    rows = {
        "logprobs": torch.full((4, 2), -1.0),
        "rewards": [1.0, 0.0, 1.0, 0.0],
        "group": [0, 0, 1, 1],
        "mask": mask,
    }
    return rows | changes


def test_advantages_of_ones_own_are_read_at_action_tokens_alone_and_must_be_finite() -> None:
    advantages = torch.ones(4, 2)
    expected = policy_loss("gpg", **plain_rows(), advantages=advantages).loss
    advantages[3, 1] = float("nan")
    assert policy_loss("gpg", **plain_rows(), advantages=advantages).loss == expected
    advantages[2, 0] = float("nan")
    with pytest.raises(
        NonFiniteError, match=r"advantages: not finite at action tokens of rows \[2\]"
    ):
        policy_loss("gpg", **plain_rows(), advantages=advantages)


def test_a_correction_needs_the_samplers_log_probs() -> None:
    rows = plain_rows(old_logprobs=torch.full((4, 2), -1.0))
    with pytest.raises(ValueError, match=r"correction needs sampled_logprobs \[B T\]"):
        policy_loss("gpg", **rows, correction={"cap": 1.5})
    sampled = torch.full((4, 2), -3.0)
    result = policy_loss("gpg", **rows, correction={"cap": 1.5}, sampled_logprobs=sampled)
    assert result.metrics["correction/weight"] == 1.5


def test_an_extra_that_nothing_reads_is_refused() -> None:
    with pytest.raises(ValueError, match=r"extras: unknown name 'lenght'; did you mean length\?"):
        policy_loss("gpg", **plain_rows(), extras={"lenght": 5})


@pytest.mark.parametrize(
    ("key", "value"),
    [("select", "cppo"), ("keep", "dynamic_sampling"), ("replay", "fifo"), ("inject", "gold")],
)
def test_parts_that_are_about_sampling_are_refused(key: str, value: str) -> None:
    with pytest.raises(
        ValueError, match=rf"{key} has no effect on policy_loss: pass only the rows"
    ):
        policy_loss("gpg", **plain_rows(**{key: value}))
    policy_loss("raft", **plain_rows())


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rewards": [1.0, 0.0, 1.0]}, r"rewards: expected one per row, \[4\], got \[3\]"),
        (
            {"rollout": [0, 0, 1, 2], "group": [0, 0, 0, 0]},
            r"rewards: rows 0 and 1 are of one rollout and differ, 1 and 0",
        ),
        (
            {"rollout": [0, 1, 1, 2], "rewards": [1.0, 0.0, 0.0, 1.0]},
            r"group: rows 1 and 2 are of one rollout and differ",
        ),
    ],
)
def test_rows_of_a_rollout_have_one_reward_and_one_group(
    changes: dict[str, Any], line: str
) -> None:
    with pytest.raises(ValueError, match=line):
        policy_loss("gpg", **plain_rows(**changes))


def test_a_step_without_rows_has_no_loss() -> None:
    nothing = torch.zeros(0, 2, requires_grad=True)
    rows = {"rewards": [], "group": [], "mask": torch.zeros(0, 2, dtype=torch.bool)}
    assert policy_loss("gpg", logprobs=nothing, **rows).loss == 0  # type: ignore[arg-type]
