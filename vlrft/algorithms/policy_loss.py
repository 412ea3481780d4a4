"""The loss core in one call, for other trainers and for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from vlrft.advantages import (
    Estimator,
    EstimatorInput,
    Floats,
    Ints,
    estimate_advantages,
    valid_groups,
)
from vlrft.algorithms.find import find_algorithm, override
from vlrft.algorithms.loss_inputs import (
    refuse_idle_overrides,
    refuse_uneven_rollouts,
    refuse_unknown_extras,
)
from vlrft.objectives import guard, make_loss_batch
from vlrft.schema import RewardError


@dataclass(frozen=True, kw_only=True)
class PolicyLoss:
    """Result of `policy_loss`: the loss, the advantages that it used, and metrics."""

    loss: Float[Tensor, ""]
    advantages: Float[Tensor, "B T"]
    metrics: dict[str, float]


def policy_loss(
    name: str,
    *,
    logprobs: Float[Tensor, "B T"],
    rewards: Float[Tensor, " B"] | Sequence[float],
    group: Int[Tensor, " B"] | Sequence[int],
    mask: Bool[Tensor, "B T"],
    old_logprobs: Float[Tensor, "B T"] | None = None,
    ref_logprobs: Float[Tensor, "B T"] | None = None,
    rollout: Int[Tensor, " B"] | Sequence[int] | None = None,
    advantages: Float[Tensor, "B T"] | Float[Tensor, " B"] | None = None,
    sampled_logprobs: Float[Tensor, "B T"] | None = None,
    truncated: Bool[Tensor, " B"] | None = None,
    extras: Mapping[str, Any] | None = None,
    **overrides: Any,
) -> PolicyLoss:
    """The loss of one whole optimiser step, for other trainers.

    One row is one sequence. `group` [B] is the index of the prompt that a row answers, `rollout` [B] that of its rollout
    (default: one row each), `rewards` [B] the reward of its rollout. Differentiable in `logprobs`; float64 stays float64. `overrides` are
    the config's keys (`advantage="standardised"`, `regularize={"kl": 0.0}`, `reduction="token"`); `extras` holds what
    single algorithms need (`length`: the configured longest completion, for the reduction `constant`; `entropy` [B T] of the
    tokens' distributions with its gradient, for an entropy bonus; `replayed` [B], rollouts of an earlier policy;
    `greedy_rewards` [B], of a greedy answer to the row's sample; `scores` {name: [B]} and `weights` {name: number}, for
    an estimator that reads the reward's components; `keys` {name: [B]}, for one with more group keys; `step_rewards` [B],
    `penalties` [B] that the reward is already without, and `anchors` [B], labels of the observation that a row began at, for
    one that compares turns: a rollout's rows are then its turns, in order; `signals` {name: [B T]}, for an estimator that reads numbers of
    tokens: `id`, `entropy`, …; `logprob` is that of `sampled_logprobs`; `known` and
    `history` {name: [B]}, numbers of the row's sample and what was noted at its last visit, for one that reads them; `progress`, the
    share of the run's steps that are done, for one that reads it and for settings with a schedule; default 0).

    Raises ValueError naming a declared need that is missing, an override or an extra that has no effect, and rows of one
    rollout that differ in reward or group; NonFiniteError for log-probs and advantages; RewardError for rewards.
    """
    refuse_idle_overrides(overrides)
    algorithm = override(find_algorithm(name), overrides)
    extras = dict(extras or {})
    refuse_unknown_extras(extras)
    needs = algorithm.needs
    if needs.old_logprobs and old_logprobs is None:
        raise ValueError(
            f"{name} needs old_logprobs [B T]; with one update per batch: logprobs.detach()"
        )
    if needs.ref_logprobs and ref_logprobs is None:
        raise ValueError(f"{name} needs ref_logprobs [B T], or regularize={{'kl': 0.0}}")
    if algorithm.correction is not None and sampled_logprobs is None:
        raise ValueError("correction needs sampled_logprobs [B T], those of the sampler")
    if needs.entropy and "entropy" not in extras:
        raise ValueError(f"{name} needs extras={{'entropy': [B T], with its gradient}}")
    if advantages is None and algorithm.estimator.greedy and "greedy_rewards" not in extras:
        raise ValueError(
            f"{name} needs extras={{'greedy_rewards': [B]}}, of a greedy answer to the row's sample"
        )
    signals = dict(extras.get("signals", {}))
    if sampled_logprobs is not None:
        signals["logprob"] = sampled_logprobs
    if advantages is None and (missing := sorted(algorithm.estimator.signals - set(signals))):
        raise ValueError(f"{name} needs extras={{'signals': {{{missing[0]!r}: [B T], …}}}}")
    if algorithm.reduction == "constant" and "length" not in extras:
        raise ValueError("the reduction `constant` needs extras={'length': longest completion}")
    algorithm = algorithm.at(float(extras.get("progress", 0.0)))
    device, wide = logprobs.device, torch.promote_types(logprobs.dtype, torch.float32)
    rows = len(logprobs)
    group_index = _dense_labels(group, rows)
    rollout_index = _dense_labels(range(rows) if rollout is None else rollout, rows)
    reward = _to_floats(rewards)
    refuse_uneven_rollouts(reward, group_index, rollout_index)
    if not np.isfinite(reward).all():
        raise RewardError(f"rewards: not finite in rows {np.flatnonzero(~np.isfinite(reward))[:8]}")
    if advantages is None:
        advantages = _estimate(
            algorithm.estimator,
            reward,
            group_index,
            rollout_index,
            mask,
            truncated,
            {**extras, "signals": signals},
        )
    values = advantages.detach().to(device, wide)
    by_token = (values[:, None] if values.dim() == 1 else values).expand(mask.shape)
    spread = guard(by_token, mask, "advantages")
    groups = int(group_index.max(initial=-1)) + 1
    valid = valid_groups(reward, group_index, groups)

    def detach(values: Tensor | None, name: str) -> Tensor | None:
        return None if values is None else guard(values.detach(), mask, name).to(wide)

    batch = make_loss_batch(
        mask=mask,
        advantages=spread,
        group=torch.as_tensor(group_index, device=device),
        rollout=torch.as_tensor(rollout_index, device=device),
        valid=tuple(map(bool, valid)),
        max_tokens=int(extras.get("length", 0)),
        sampled_logprobs=detach(sampled_logprobs, "sampled_logprobs"),
        old_logprobs=detach(old_logprobs, "old_logprobs"),
        ref_logprobs=detach(ref_logprobs, "ref_logprobs"),
        entropy=extras.get("entropy"),
        replayed=extras.get("replayed"),
    )
    loss, terms = algorithm.loss(logprobs, batch)
    metrics = {k: float(v[mask].mean()) if mask.any() else 0.0 for k, v in terms.observed.items()}
    metrics |= dict(terms.scalars) | {"groups/valid_share": float(valid.mean()) if groups else 0.0}
    if truncated is not None:
        metrics["length/truncated"] = float(truncated.double().mean())
    return PolicyLoss(loss=loss, advantages=spread, metrics=metrics)


def _estimate(
    estimator: Estimator,
    reward: Floats,
    group: Ints,
    rollout: Ints,
    mask: Tensor,
    truncated: Tensor | None,
    extras: Mapping[str, Any],
) -> Float[Tensor, "B T"]:
    """The estimator's advantages [B T], from values by row."""
    rows = len(reward)
    _, first, counts = np.unique(rollout, return_index=True, return_counts=True)
    turn_tokens = mask.sum(1).cpu().numpy().astype(np.int64)
    cut = np.zeros(rows, bool) if truncated is None else truncated.cpu().numpy().astype(bool)
    order = np.argsort(rollout, kind="stable")
    places = np.empty(rows, dtype=np.int64)
    places[order] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    greedy = extras.get("greedy_rewards")
    inputs = EstimatorInput(
        values=reward[first],
        keys={k: _dense_labels(v, rows)[first] for k, v in extras.get("keys", {}).items()}
        | {"sample": group[first]},
        scores={k: _to_floats(v)[first] for k, v in extras.get("scores", {}).items()},
        weights=dict(extras.get("weights", {})),
        rollouts=rollout,
        turn_tokens=turn_tokens,
        tokens=np.bincount(rollout, weights=turn_tokens).astype(np.int64),
        truncated=np.bincount(rollout, weights=cut) > 0,
        max_tokens=int(extras.get("length", 0)),
        greedy=None if greedy is None else _to_floats(greedy)[first],
        step_rewards=_to_floats(extras.get("step_rewards", np.zeros(rows))),
        penalties=_to_floats(extras.get("penalties", np.zeros(rows))),
        anchors=_dense_labels(
            group * rows + _dense_labels(extras.get("anchors", range(rows)), rows), rows
        ),
        places=places,
        episodes=rollout,
        signals={k: _by_row(extras["signals"][k], mask) for k in sorted(estimator.signals)},
        progress=float(extras.get("progress", 0.0)),
        known={k: _to_floats(v)[first] for k, v in extras.get("known", {}).items()},
        history={k: _to_floats(v)[first] for k, v in extras.get("history", {}).items()},
    )
    spread = torch.zeros(mask.shape, dtype=torch.float64)
    for b, row in enumerate(estimate_advantages(inputs, estimator)):
        spread[b, mask[b].cpu()] = torch.from_numpy(row)
    return spread


def _by_row(values: Any, mask: Tensor) -> tuple[Floats, ...]:
    """The values of the action tokens of each row, from [B T]."""
    rows = zip(_to_floats(values), mask.cpu().numpy(), strict=True)
    return tuple(row[actions] for row, actions in rows)


def _to_floats(values: Any) -> Floats:
    plain = values.detach().double().cpu() if isinstance(values, Tensor) else values
    return np.asarray(plain, dtype=np.float64)


def _dense_labels(index: Any, rows: int) -> Ints:
    """Integer labels [B] as 0 … n−1 in order of first appearance. Raises ValueError for another number of rows."""
    labels = np.asarray(torch.as_tensor(index).cpu() if not isinstance(index, range) else index)
    if labels.shape != (rows,):
        raise ValueError(f"expected one index per row, [{rows}], got {list(labels.shape)}")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return np.asarray(order[inverse], dtype=np.int64)
