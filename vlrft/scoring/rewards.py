"""The reward of a rollout: the weighted sum of the named rewards that apply to it, with each score kept in `scores`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vlrft.distributed.phases import phase
from vlrft.plugins.process_state import keeping_process_state
from vlrft.schema import Rollout
from vlrft.scoring.calls import Outcome, split_into_calls, start_calls
from vlrft.scoring.failures import mean_scores, retry_calls
from vlrft.scoring.reward_input import RewardInput
from vlrft.scoring.weighted import RewardResult, WeightedReward, check_outcome, reward_error


def score(rollout: Rollout, rewards: Sequence[WeightedReward]) -> Rollout:
    """Scores one rollout, as a group and batch of one."""
    return score_groups([[rollout]], rewards)[0][0]


@phase("reward")
def score_groups(
    groups: Sequence[Sequence[Rollout]], rewards: Sequence[WeightedReward], progress: float = 1.0
) -> list[list[Rollout]]:
    """The rollouts of each group with their reward and scores, added to those of their environment. `progress`: the share of the
    stage's steps that are done, for rewards that read it; 1.0 outside of training.

    A reward that returns named numbers gives the scores `name/part`; its weight applies to each of them. A part that is
    None does not apply: it is kept as None and adds nothing. Raises DataError for an unreadable gold answer and
    RewardError for a reward that raised or returned no finite number; both name the sample.
    """
    rollouts = [rollout for group in groups for rollout in group]
    reads_ids = any(reward.signature.scope == "columns" for reward in rewards)
    inputs = [
        RewardInput(r.text, r.sample, _action_ids(r) if reads_ids else (), progress)
        for r in rollouts
    ]
    indices = iter(range(len(rollouts)))
    group_indices = [[next(indices) for _ in group] for group in groups if group]
    results = [
        _without_effect(column, group_indices) if reward.on_error == "none" else column
        for reward, column in zip(
            rewards, _call_rewards(rewards, inputs, group_indices), strict=True
        )
    ]
    scored = iter(
        [
            _add_scores(rollout, reward_input, rewards, [column[k] for column in results])
            for k, (rollout, reward_input) in enumerate(zip(rollouts, inputs, strict=True))
        ]
    )
    return [[next(scored) for _ in group] for group in groups]


def _add_scores(
    rollout: Rollout,
    reward_input: RewardInput,
    rewards: Sequence[WeightedReward],
    results: Sequence[RewardResult],
) -> Rollout:
    """The rollout with the result of each reward added."""
    total, scores, errors = rollout.reward, dict(rollout.scores), dict(rollout.errors)
    imputed, retries = dict(rollout.imputed), dict(rollout.retries)
    for reward, result in zip(rewards, results, strict=True):
        for name, value in result.scores.items():
            if name in scores:
                problem = f"gives the score {name!r}, which exists already; rename it"
                raise reward_error(reward, [reward_input], problem)
            scores[name] = value
            total += reward.weight * (value or 0.0)
        for name, mean in (result.imputed or {}).items():
            imputed[name] = mean
            total += reward.weight * mean
        if result.error is not None:
            errors[reward.name] = result.error
        if result.retries:
            retries[reward.name] = result.retries
    return replace(
        rollout, reward=total, scores=scores, imputed=imputed, errors=errors, retries=retries
    )


def _without_effect(
    results: Sequence[RewardResult], groups: Sequence[Sequence[int]]
) -> list[RewardResult]:
    """The results, where the failed ones of a group count the mean scores of its others. Without a failure they are
    unchanged."""
    out = list(results)
    for group in groups:
        means = mean_scores([results[k].scores for k in group if not results[k].error])
        for k in group:
            if results[k].error:
                out[k] = results[k]._replace(imputed=means)
    return out


def _action_ids(rollout: Rollout) -> tuple[int, ...]:
    return tuple(i for s in rollout.rows for p in s.pieces if p.sampled for i in p.ids)


def _call_rewards(
    rewards: Sequence[WeightedReward],
    inputs: Sequence[RewardInput],
    groups: Sequence[Sequence[int]],
) -> list[list[RewardResult]]:
    """For each reward, its result for each input. Rewards that run in workers or on the event loop run concurrently."""
    if not inputs:
        return [[] for _ in rewards]
    calls = [
        [[inputs[k] for k in call] for call in split_into_calls(reward.signature, groups)]
        for reward in rewards
    ]
    with keeping_process_state():
        waits = [
            _start(reward, reward_calls)
            for reward, reward_calls in zip(rewards, calls, strict=True)
        ]
        outcomes = [wait() for wait in waits]
        retries = [
            retry_calls(
                reward_outcomes,
                lambda failed, reward=reward, made=reward_calls: _start(  # type: ignore[misc]
                    reward, [made[k] for k in failed]
                )(),
                reward.retries,
            )
            for reward, reward_calls, reward_outcomes in zip(rewards, calls, outcomes, strict=True)
        ]
    return [
        [
            result._replace(retries=retried)
            for call, outcome, retried in zip(reward_calls, made, counts, strict=True)
            for result in check_outcome(reward, call, outcome)
        ]
        for reward, reward_calls, made, counts in zip(
            rewards, calls, outcomes, retries, strict=True
        )
    ]


def _start(
    reward: WeightedReward, calls: Sequence[Sequence[RewardInput]]
) -> Callable[[], list[Outcome]]:
    return start_calls(
        reward.function,
        reward.signature,
        calls,
        reference=reward.reference,
        workers=reward.workers,
        seconds=reward.time_limit,
        stop=reward.on_error == "raise" and not reward.retries,
    )
