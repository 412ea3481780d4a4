"""The meaning of each metric of `metrics.jsonl`: the one place for it, from which the reference page is made.

A name in capitals is a placeholder: `reward/NAME` is the mean score of the reward NAME.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

METRIC_DOCS: Mapping[str, Mapping[str, str]] = {
    "The row": {
        "stage": "name of the stage",
        "step": "number of the step, over all stages",
    },
    "Update": {
        "loss": "loss of the step, summed over its micro-batches; objectives define it differently, so compare it within a stage alone",
        "grad_norm": "norm of the gradient before clipping (console: grad)",
        "lr": "learning rate of the last optimiser step",
        "entropy": "mean entropy of the policy's distribution over action tokens, in nats; falling fast means that completions become alike",
        "ratio/min": "smallest ratio of a token's probability to that under the policy before the step's updates",
        "ratio/mean": "mean of that ratio; 1 with one update per batch",
        "ratio/max": "largest of those ratios",
        "ratio/clipped_high": "share of action tokens whose ratio is above the clip while the advantage is positive, which get no gradient",
        "ratio/clipped_low": "share of action tokens whose ratio is below the clip while the advantage is negative",
        "kl/old": "estimate (k3) of the KL divergence between the policy and the one before the step's updates, mean over action tokens",
        "kl/reference": "the same to the reference policy, where the algorithm has a KL term",
        "sampler_gap/min": "smallest absolute difference between a token's log-prob in sampling and in training",
        "sampler_gap/mean": "mean of that difference: near 0; more means that sampler and trainer compute different models",
        "sampler_gap/max": "largest of those differences",
        "correction/weight": "mean importance weight of an action token, where the algorithm has a `correction`; far from 1: the sampler's policy is far from the trained one",
        "correction/touched": "share of action tokens whose ratio was above `correction.cap`, and so truncated or masked",
        "staleness/mean": "with `rollout.ahead`: mean number of steps by which the weights that sampled an action token are older than those that the step begins with",
        "staleness/max": "largest of those numbers; at most `rollout.ahead`",
        "alpha": "GPG's factor α: rows of the step over rows of groups with a signal",
        "weight": "mean weight of a token (cw_grpo)",
        "weight/below_half": "share of tokens whose weight is below a half (cw_grpo)",
        "gvpo/residual": "mean absolute residual of GVPO's regression",
        "ratio/pulled_back": "share of action tokens whose ratio is past the top of the parabola, and is pulled back (simple_po)",
        "ratio/out_of_range": "share of action tokens outside of the objective's range, which get no gradient (rec)",
        "disco/outside_trust_region": "share of action tokens in groups whose KL is above δ (disco, drpo)",
        "trpa/paired": "share of action tokens in groups with rewards of different levels (trpa)",
        "dpo/correct": "share of pairs whose better completion has the higher implicit reward (dpo)",
    },
    "Rewards": {
        "reward/mean": "mean reward of all rollouts of the step, weighted and summed over the rewards (console: reward)",
        "reward/std": "standard deviation of those rewards",
        "reward/NAME": "mean score of the reward NAME where it applies, without its weight; `reward/NAME/PART` of a named part",
        "reward/NAME/errors": "calls of NAME that failed and count as its `on_error` says",
        "reward/NAME/retries": "calls of NAME that were made again",
        "episode/NAME": "mean of the score NAME of an environment",
        "advantage/min": "smallest advantage of an action token",
        "advantage/max": "largest advantage of an action token",
    },
    "Groups and prompts": {
        "groups/valid_share": "share of groups whose rewards differ: only they teach anything (console: valid); 0 for long means that nothing is learned",
        "groups/attempts": "times that prompts were played for the step, as the algorithm's `keep` asks",
        "groups/solved_all": "share of groups in which every rollout has the best score of each reward",
        "groups/solved_none": "share of groups in which no rollout has",
        "prompts/epoch": "prompts drawn or skipped so far, in passes over the training split",
        "prompts/stale_share": "share of the prompts played so far whose last group had equal rewards",
    },
    "Lengths and episodes": {
        "length/mean": "mean number of action tokens of a completion, or of an episode",
        "length/max": "largest of those numbers",
        "length/truncated": "share of rollouts with a turn that ran into `rollout.max_tokens`; high: raise it",
        "length/turn_mean": "mean number of action tokens of a turn",
        "env/turns": "mean number of turns of an episode",
        "env/valid": "share of turns with a readable action",
        "env/truncated": "share of episodes that a limit of turns or tokens ended",
        "env/errors": "episodes of the step whose environment failed, dropped ones included",
    },
    "Cost": {
        "speed/rollout_tokens_s": "sampled tokens per second of rollout; with `rollout.ahead`, of the sampling of this step",
        "speed/update_tokens_s": "packed tokens per second of update",
        "time/rollout_s": "seconds of rollout; with `rollout.ahead`, that training waited for it",
        "time/update_s": "seconds of update",
        "time/step_s": "seconds of the whole step",
        "time/waiting_s": "with `rollout.ahead`: seconds that training waited for the rollouts of the step",
        "time/sampler_idle_s": "with `rollout.ahead`: seconds since the step before in which nothing was sampled, because weights were not out yet",
        "memory/peak_gb": "peak memory so far, in 10^9 bytes: of the GPU, or of the process on a CPU",
    },
}
"""Section -> name of a metric -> its meaning."""


def describe_metric(name: str) -> str | None:
    """The meaning of a metric; None for an unknown one."""
    meanings = {key: text for section in METRIC_DOCS.values() for key, text in section.items()}
    if name in meanings:
        return meanings[name]
    for key, text in sorted(meanings.items(), key=lambda item: -len(item[0])):
        if "NAME" in key and re.fullmatch(re.escape(key).replace("NAME", ".+"), name):
            return text
    return None
